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

void CpuWeight::ApplyBias(const TensorView& out, std::int64_t begin, std::int64_t end,
                          bool accumulate) const {
  if (bias_ == nullptr) return;
  for (std::int64_t r = 0; r < out.dim(0); ++r) {
    float* row = out.row<float>(r);
    if (accumulate) {
      for (std::int64_t i = begin; i < end; ++i) row[i] += bias_[static_cast<std::size_t>(i)];
    } else {
      std::copy(bias_.get() + begin, bias_.get() + end, row + begin);
    }
  }
}

}  // namespace scd::cpu
