#include "kernels/cpu/cpu_weight.h"

#include <algorithm>

namespace scd::cpu {

absl::Status CpuWeight::SetBias(const ConstTensorView& bias) {
  if (bias.empty()) return absl::OkStatus();
  bias_ = hwy::AllocateAligned<float>(static_cast<std::size_t>(out_features_));
  if (bias_ == nullptr) return absl::ResourceExhaustedError("no memory for the bias of a packed weight");
  std::copy_n(bias.as<float>(), out_features_, bias_.get());
  return absl::OkStatus();
}

void CpuWeight::ApplyBias(const TensorView& out, Range columns, bool accumulate) const {
  if (bias_ == nullptr) return;
  const float* bias_of_columns = bias(columns.begin);
  for (std::int64_t r = 0; r < out.dim(0); ++r) {
    float* row = out.row<float>(r);
    if (accumulate) {
      for (std::int64_t i = 0; i < columns.end - columns.begin; ++i) row[i] += bias_of_columns[i];
    } else {
      std::copy_n(bias_of_columns, columns.end - columns.begin, row);
    }
  }
}

}  // namespace scd::cpu
