#include <vector>

#include "kernels/cpu/cpu_weight.h"

namespace scd::cpu {

absl::StatusOr<std::unique_ptr<CpuWeight>> PackQuantizedWeight(const QuantizedMatrix& weight,
                                                               const ConstTensorView& bias,
                                                               absl::Span<const std::int64_t> cuts) {
  std::vector<float> values(weight.values.size());
  for (std::int64_t o = 0; o < weight.out_features; ++o) {
    DequantizeRow(weight, o, values.data() + o * weight.in_features);
  }
  return PackF32Weight(ConstTensorView(values.data(), DType::kF32, {weight.out_features, weight.in_features}),
                       bias, cuts);
}

}  // namespace scd::cpu
