#include "calibrate/pair_moments.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

std::size_t Size(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

// Copies rows minus pivot to `shifted` and adds them up into `sum`.
void ShiftRows(ConstTensorView rows, const double* pivot, float* shifted, double* sum) {
  const std::int64_t dim = rows.dim(1);
  for (std::int64_t r = 0; r < rows.dim(0); ++r) {
    const float* in = rows.row<float>(r);
    float* out = shifted + r * dim;
    for (std::int64_t i = 0; i < dim; ++i) {
      out[i] = in[i] - static_cast<float>(pivot[i]);
      sum[i] += static_cast<double>(out[i]);
    }
  }
}

void ColumnMeans(ConstTensorView rows, double* mean) {
  const std::int64_t dim = rows.dim(1);
  std::fill(mean, mean + dim, 0.0);
  for (std::int64_t r = 0; r < rows.dim(0); ++r) {
    const float* in = rows.row<float>(r);
    for (std::int64_t i = 0; i < dim; ++i) mean[i] += static_cast<double>(in[i]);
  }
  // Rounded to float, so that the pivot that rows are shifted by is exactly the one that is kept.
  for (std::int64_t i = 0; i < dim; ++i) {
    mean[i] = static_cast<double>(static_cast<float>(mean[i] / static_cast<double>(rows.dim(0))));
  }
}

absl::Status AddProduct(HostMath& math, const std::vector<float>& x, std::int64_t dim_x,
                        const std::vector<float>& y, std::int64_t dim_y, std::int64_t rows,
                        std::vector<float>& scratch, std::vector<double>& sum) {
  scratch.resize(Size(dim_x * dim_y));
  SCD_RETURN_IF_ERROR(math.Gemm(MatrixView(x.data(), rows, dim_x), MatrixView(y.data(), rows, dim_y),
                                MatrixView(scratch.data(), dim_x, dim_y), {.transpose_a = true}));
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(scratch[i]);
  return absl::OkStatus();
}

Matrix Centred(const std::vector<double>& products, const double* sum_x, std::int64_t dim_x,
               const double* sum_y, std::int64_t dim_y, double count) {
  Matrix out(dim_x, dim_y);
  for (std::int64_t i = 0; i < dim_x; ++i) {
    for (std::int64_t j = 0; j < dim_y; ++j) {
      out(i, j) = products[Size(i * dim_y + j)] - sum_x[i] * sum_y[j] / count;
    }
  }
  return out;
}

}  // namespace

PairMoments::PairMoments(std::int64_t dim_a, std::int64_t dim_b, bool with_bb)
    : dim_a_(dim_a),
      dim_b_(dim_b),
      pivot_(Size(dim_a + dim_b)),
      sum_(Size(dim_a + dim_b)),
      aa_(Size(dim_a * dim_a)),
      ab_(Size(dim_a * dim_b)),
      bb_(with_bb ? Size(dim_b * dim_b) : 0) {}

absl::Status PairMoments::Add(HostMath& math, ConstTensorView a, ConstTensorView b) {
  if (a.rank() != 2 || b.rank() != 2 || a.dim(1) != dim_a_ || b.dim(1) != dim_b_ || a.dim(0) != b.dim(0)) {
    return absl::InvalidArgumentError(absl::StrCat("moments of rows [n, ", dim_a_, "] and [n, ", dim_b_,
                                                   "]: got ", a.shape().ToString(), " and ",
                                                   b.shape().ToString()));
  }
  for (std::int64_t begin = 0; begin < a.dim(0); begin += kBlockRows) {
    const std::int64_t rows = std::min(kBlockRows, a.dim(0) - begin);
    SCD_RETURN_IF_ERROR(AddBlock(math, a.rows(begin, rows), b.rows(begin, rows)));
  }
  return absl::OkStatus();
}

absl::Status PairMoments::AddBlock(HostMath& math, ConstTensorView a, ConstTensorView b) {
  const std::int64_t rows = a.dim(0);
  if (count_ == 0) {
    ColumnMeans(a, pivot_.data());
    ColumnMeans(b, pivot_.data() + dim_a_);
  }
  count_ += rows;
  return math.device() == nullptr ? AddOnHost(math, a, b) : AddOnDevice(*math.device(), a, b);
}

absl::Status PairMoments::AddOnHost(HostMath& math, ConstTensorView a, ConstTensorView b) {
  const std::int64_t rows = a.dim(0);
  std::vector<float> shifted_a(Size(rows * dim_a_));
  std::vector<float> shifted_b(Size(rows * dim_b_));
  ShiftRows(a, pivot_.data(), shifted_a.data(), sum_.data());
  ShiftRows(b, pivot_.data() + dim_a_, shifted_b.data(), sum_.data() + dim_a_);

  std::vector<float> scratch;
  SCD_RETURN_IF_ERROR(AddProduct(math, shifted_a, dim_a_, shifted_a, dim_a_, rows, scratch, aa_));
  SCD_RETURN_IF_ERROR(AddProduct(math, shifted_a, dim_a_, shifted_b, dim_b_, rows, scratch, ab_));
  if (bb_.empty()) return absl::OkStatus();
  return AddProduct(math, shifted_b, dim_b_, shifted_b, dim_b_, rows, scratch, bb_);
}

absl::Status PairMoments::AddOnDevice(DeviceProducts& products, ConstTensorView a, ConstTensorView b) {
  if (device_ == nullptr) {
    SCD_ASSIGN_OR_RETURN(device_, DeviceSums::Create(products.backend(), dim_a_, dim_b_, !bb_.empty()));
  }
  if (device_->num_rows() + a.dim(0) > DeviceSums::kMostRows) SCD_RETURN_IF_ERROR(Collect(products));
  SCD_ASSIGN_OR_RETURN(const DeviceProducts::HostRows shifted, products.NextRows(a.dim(0), dim_a_, dim_b_));
  ShiftRows(a, pivot_.data(), shifted.a.as<float>(), sum_.data());
  ShiftRows(b, pivot_.data() + dim_a_, shifted.b.as<float>(), sum_.data() + dim_a_);
  SCD_ASSIGN_OR_RETURN(const DeviceProducts::DeviceRows rows, products.SendRows());
  SCD_RETURN_IF_ERROR(device_->Add(products, rows));
  return products.RowsUsed();
}

absl::Status PairMoments::Collect(DeviceProducts& products) {
  SCD_RETURN_IF_ERROR(device_->AddTo(products, aa_.data(), ab_.data(), bb_.data()));
  device_->Clear();
  return absl::OkStatus();
}

absl::Status PairMoments::Settle(HostMath& math) {
  if (device_ == nullptr) return absl::OkStatus();
  SCD_RETURN_IF_ERROR(Collect(*math.device()));
  device_.reset();
  return absl::OkStatus();
}

absl::StatusOr<Moments> PairMoments::Finish() const {
  if (count_ == 0) return absl::FailedPreconditionError("no rows to fit on");
  const double n = static_cast<double>(count_);
  Moments out;
  out.count = count_;
  for (std::int64_t i = 0; i < dim_a_ + dim_b_; ++i) {
    (i < dim_a_ ? out.mean_a : out.mean_b).push_back(pivot_[Size(i)] + sum_[Size(i)] / n);
  }
  const double* sum_a = sum_.data();
  const double* sum_b = sum_.data() + dim_a_;
  out.aa = Centred(aa_, sum_a, dim_a_, sum_a, dim_a_, n);
  out.ab = Centred(ab_, sum_a, dim_a_, sum_b, dim_b_, n);
  if (!bb_.empty()) out.bb = Centred(bb_, sum_b, dim_b_, sum_b, dim_b_, n);
  if (device_ != nullptr) {
    SCD_RETURN_IF_ERROR(device_->AddTo(out.aa.values.data(), out.ab.values.data(), out.bb.values.data()));
  }
  return out;
}

std::int64_t PairMoments::num_state_values() const {
  return static_cast<std::int64_t>(1 + pivot_.size() + sum_.size() + aa_.size() + ab_.size() + bb_.size());
}

absl::Status PairMoments::SaveState(absl::Span<double> out) const {
  double* it = out.data();
  *it++ = static_cast<double>(count_);
  for (const std::vector<double>* part : {&pivot_, &sum_}) it = std::copy(part->begin(), part->end(), it);
  double* const aa = it;
  double* const ab = std::copy(aa_.begin(), aa_.end(), aa);
  double* const bb = std::copy(ab_.begin(), ab_.end(), ab);
  std::copy(bb_.begin(), bb_.end(), bb);
  return device_ == nullptr ? absl::OkStatus() : device_->AddTo(aa, ab, bb);
}

void PairMoments::LoadState(absl::Span<const double> in) {
  device_.reset();
  auto it = in.begin();
  count_ = static_cast<std::int64_t>(*it++);
  for (std::vector<double>* part : {&pivot_, &sum_, &aa_, &ab_, &bb_}) {
    const auto size = static_cast<std::ptrdiff_t>(part->size());
    std::copy(it, it + size, part->begin());
    it += size;
  }
}

}  // namespace scd
