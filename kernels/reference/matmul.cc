#include <algorithm>
#include <vector>

#include "kernels/checks.h"
#include "kernels/reference/element.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

class ReferenceWeight final : public PackedWeight {
 public:
  ReferenceWeight(std::int64_t out_features, std::int64_t in_features, const ConstTensorView& bias_view,
                  absl::Span<const std::int64_t> cuts)
      : bias(static_cast<std::size_t>(out_features), 0.0f),
        out_features_(out_features),
        in_features_(in_features),
        cuts_(cuts.begin(), cuts.end()) {
    if (!bias_view.empty()) bias.assign(bias_view.as<float>(), bias_view.as<float>() + out_features);
  }

  std::int64_t in_features() const override { return in_features_; }
  std::int64_t out_features() const override { return out_features_; }
  absl::Span<const std::int64_t> cuts() const override { return cuts_; }
  std::int64_t size_bytes() const override {
    return out_features_ * in_features_ * static_cast<std::int64_t>(sizeof(float));
  }

  std::vector<float> values;  // [out_features, in_features]
  std::vector<float> bias;    // [out_features]

 private:
  std::int64_t out_features_;
  std::int64_t in_features_;
  std::vector<std::int64_t> cuts_;
};

float RoundToBf16(float value) {
  return Bf16ToFloat(FloatToBf16(value));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedWeight>> ReferenceBackend::PackDense(
    ConstTensorView weight, ConstTensorView bias, absl::Span<const std::int64_t> cuts) {
  auto packed = std::make_unique<ReferenceWeight>(weight.dim(0), weight.dim(1), bias, cuts);
  packed->values.reserve(static_cast<std::size_t>(weight.num_elements()));
  for (std::int64_t o = 0; o < weight.dim(0); ++o) {
    for (std::int64_t i = 0; i < weight.dim(1); ++i) {
      const float value = reference::Load(weight, o * weight.stride(0) + i);
      packed->values.push_back(round_to_bf16_ ? RoundToBf16(value) : value);
    }
  }
  return packed;
}

absl::StatusOr<std::unique_ptr<PackedWeight>> ReferenceBackend::PackQuantized(
    const QuantizedMatrix& weight, ConstTensorView bias, absl::Span<const std::int64_t> cuts) {
  SCD_RETURN_IF_ERROR(CheckPackQuantized(weight, bias, cuts));
  auto packed = std::make_unique<ReferenceWeight>(weight.out_features, weight.in_features, bias, cuts);
  packed->values.resize(weight.values.size());
  for (std::int64_t o = 0; o < weight.out_features; ++o) {
    DequantizeRow(weight, o, packed->values.data() + o * weight.in_features);
  }
  if (round_to_bf16_)
    std::transform(packed->values.begin(), packed->values.end(), packed->values.begin(), RoundToBf16);
  return packed;
}

absl::Status ReferenceBackend::MatMul(Stream& /*stream*/, ConstTensorView x, const PackedWeight& weight,
                                      TensorView out, const MatMulOptions& options) {
  SCD_RETURN_IF_ERROR(CheckMatMul(x, weight, out, options, device()));
  const auto* packed = dynamic_cast<const ReferenceWeight*>(&weight);
  if (packed == nullptr) return absl::InvalidArgumentError("MatMul: weight was packed by another backend");
  const ColumnRange columns = ResultColumns(weight, options.columns);
  for (std::int64_t r = 0; r < x.dim(0); ++r) {
    const float* x_row = x.row<float>(r);
    float* out_row = out.row<float>(r);
    for (std::int64_t o = columns.begin; o < columns.end; ++o) {
      const float* w_row = packed->values.data() + o * packed->in_features();
      double sum = packed->bias[static_cast<std::size_t>(o)];
      for (std::int64_t i = 0; i < packed->in_features(); ++i) {
        const float x_value = round_to_bf16_ ? RoundToBf16(x_row[i]) : x_row[i];
        sum += double{x_value} * w_row[i];
      }
      float& result = out_row[o - columns.begin];
      result = static_cast<float>(options.accumulate ? result + sum : sum);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Gemm(Stream& /*stream*/, ConstTensorView a, ConstTensorView b, TensorView c,
                                    const GemmOptions& options) {
  SCD_RETURN_IF_ERROR(CheckGemm(a, b, c, options, device()));
  const std::int64_t depth = a.dim(options.transpose_a ? 0 : 1);
  for (std::int64_t i = 0; i < c.dim(0); ++i) {
    for (std::int64_t j = 0; j < c.dim(1); ++j) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const float a_value = options.transpose_a ? a.row<float>(k)[i] : a.row<float>(i)[k];
        const float b_value = options.transpose_b ? b.row<float>(j)[k] : b.row<float>(k)[j];
        sum += double{a_value} * b_value;
      }
      float& value = c.row<float>(i)[j];
      value = static_cast<float>(options.alpha * sum +
                                 (options.beta == 0.0f ? 0.0 : options.beta * double{value}));
    }
  }
  return absl::OkStatus();
}

}  // namespace scd
