#include "calibrate/translator.h"

#include <cmath>

#include "kernels/status_macros.h"

namespace scd {
namespace {

std::vector<float> Transposed(const Matrix& m) {
  std::vector<float> out;
  out.reserve(m.values.size());
  for (std::int64_t c = 0; c < m.columns; ++c) {
    for (std::int64_t r = 0; r < m.rows; ++r) out.push_back(static_cast<float>(m(r, c)));
  }
  return out;
}

void AddToRows(TensorView rows, const float* bias) {
  for (std::int64_t r = 0; r < rows.dim(0); ++r) {
    float* row = rows.row<float>(r);
    for (std::int64_t i = 0; i < rows.dim(1); ++i) row[i] += bias[i];
  }
}

}  // namespace

AffineTranslator MakeTranslator(const LinearFit& fit) {
  AffineTranslator t;
  t.in = fit.encoder.rows;
  t.rank = fit.encoder.columns;
  t.out = fit.decoder.columns;
  t.encoder = Transposed(fit.encoder);
  t.decoder = Transposed(fit.decoder);
  for (std::int64_t c = 0; c < t.rank; ++c) {
    double bias = 0;
    for (std::int64_t i = 0; i < t.in; ++i)
      bias -= fit.mean_a[static_cast<std::size_t>(i)] * fit.encoder(i, c);
    t.encoder_bias.push_back(static_cast<float>(bias));
  }
  t.decoder_bias.assign(fit.mean_b.begin(), fit.mean_b.end());
  return t;
}

absl::Status EncodeRows(HostMath& math, const AffineTranslator& t, std::int64_t rank, ConstTensorView a,
                        TensorView z) {
  SCD_RETURN_IF_ERROR(math.Gemm(a, MatrixView(t.encoder.data(), rank, t.in), z, {.transpose_b = true}));
  AddToRows(z, t.encoder_bias.data());
  return absl::OkStatus();
}

absl::Status DecodeRows(HostMath& math, const AffineTranslator& t, std::int64_t rank, ConstTensorView z,
                        TensorView b) {
  const ConstTensorView decoder = MatrixView(t.decoder.data(), t.out, t.rank).columns(0, rank);
  SCD_RETURN_IF_ERROR(math.Gemm(z, decoder, b, {.transpose_b = true}));
  AddToRows(b, t.decoder_bias.data());
  return absl::OkStatus();
}

void RelativeError::Add(ConstTensorView predicted, ConstTensorView actual, const std::vector<float>& mean) {
  for (std::int64_t r = 0; r < actual.dim(0); ++r) {
    const float* p = predicted.row<float>(r);
    const float* a = actual.row<float>(r);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const double error = static_cast<double>(p[i]) - a[i];
      const double spread = static_cast<double>(a[i]) - mean[i];
      error_ += error * error;
      spread_ += spread * spread;
    }
  }
}

double RelativeError::value() const {
  return spread_ > 0 ? std::sqrt(error_ / spread_) : 0.0;
}

}  // namespace scd
