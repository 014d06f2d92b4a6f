// Weights of any model without a file: every matrix reads the same numbers, so that a host needs memory for
// the largest alone, while the device gets all of them.
#ifndef SCD_BENCH_GPU_MADE_UP_WEIGHTS_H_
#define SCD_BENCH_GPU_MADE_UP_WEIGHTS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/weight_store.h"
#include "kernels/dtype.h"

namespace scd {

// n numbers of one spread around 0; the bits of products of them vary as those of a model do.
class MadeUpNumbers {
 public:
  MadeUpNumbers(std::int64_t count, float spread) {
    std::minstd_rand random(1);
    values_.resize(static_cast<std::size_t>(count));
    const float step = 2 * std::sqrt(3.0f) * spread / static_cast<float>(std::minstd_rand::max());
    for (std::uint16_t& value : values_) {
      value = FloatToBf16(step * static_cast<float>(random()) - std::sqrt(3.0f) * spread);
    }
  }

  // The first numbers.
  ConstTensorView view(const Shape& shape) const {
    return ConstTensorView(values_.data(), DType::kBF16, shape);
  }

 private:
  std::vector<std::uint16_t> values_;
};

class MadeUpWeights final : public WeightStore {
 public:
  // Both outlive this.
  MadeUpWeights(const ModelConfig& config, const MadeUpNumbers& numbers)
      : config_(config),
        numbers_(numbers),
        ones_(static_cast<std::size_t>(std::max(config.hidden_size, config.head_dim)), 1.0f) {}

  // Of the largest matrix.
  static std::int64_t NumbersOf(const ModelConfig& c) {
    return c.hidden_size * std::max({c.vocab_size, c.intermediate_size, c.d_q()});
  }

  absl::StatusOr<HostTensor> Load(WeightKind kind, std::int64_t /*layer*/) const override {
    const Shape shape = WeightShape(config_, kind);
    if (shape.rank() == 1) return HostTensor(ConstTensorView(ones_.data(), DType::kF32, shape));
    return HostTensor(numbers_.view(shape));
  }

 private:
  const ModelConfig& config_;
  const MadeUpNumbers& numbers_;
  const std::vector<float> ones_;
};

}  // namespace scd

#endif  // SCD_BENCH_GPU_MADE_UP_WEIGHTS_H_
