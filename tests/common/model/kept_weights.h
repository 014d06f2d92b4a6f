// A model whose matrices lie in blocks, some with an adapter: what a file with a LoRA adapter gives, made up.
#ifndef SCD_TESTS_COMMON_MODEL_KEPT_WEIGHTS_H_
#define SCD_TESTS_COMMON_MODEL_KEPT_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "common/model/weight_store.h"
#include "tests/support/random_weights.h"

namespace scd::testing {

// SmallConfig with widths that blocks fit.
inline ModelConfig BlockConfig() {
  ModelConfig config = SmallConfig();
  config.hidden_size = 32;
  config.num_heads = 4;
  config.head_dim = 16;
  config.intermediate_size = 96;
  return config;
}

class KeptWeights final : public WeightStore {
 public:
  using Bits = std::function<int(WeightKind, std::int64_t)>;           // 4, 8 or 0 for dense
  using Rank = std::function<std::int64_t(WeightKind, std::int64_t)>;  // 0: no adapter

  KeptWeights(const ModelConfig& config, Bits bits, Rank rank)
      : config_(config), random_(config), bits_(std::move(bits)), rank_(std::move(rank)) {}

  absl::StatusOr<HostTensor> Load(WeightKind kind, std::int64_t layer) const override {
    const Shape shape = WeightShape(config_, kind);
    std::vector<float> values = std::move(*random_.Load(kind, layer)).TakeFloats();
    if (shape.rank() != 2) return HostTensor(std::move(values), shape);
    if (const auto blocks = Blocks(kind, layer)) {
      for (std::int64_t row = 0; row < shape[0]; ++row) {
        DequantizeRow(*blocks, row, values.data() + row * shape[1]);
      }
    }
    if (const auto adapter = LoadLowRank(kind, layer); *adapter) {
      const LowRankMatrices& m = **adapter;
      for (std::int64_t row = 0; row < shape[0]; ++row) {
        for (std::int64_t k = 0; k < m.rank; ++k) {
          const float b = m.b[static_cast<std::size_t>(row * m.rank + k)];
          for (std::int64_t i = 0; i < shape[1]; ++i) {
            values[static_cast<std::size_t>(row * shape[1] + i)] +=
                b * m.a[static_cast<std::size_t>(k * shape[1] + i)];
          }
        }
      }
    }
    return HostTensor(std::move(values), shape);
  }

  absl::StatusOr<std::optional<StoredBlocks>> LoadBlocks(WeightKind kind, std::int64_t layer) const override {
    auto matrix = Blocks(kind, layer);
    if (!matrix) return std::nullopt;
    const char* const name = matrix->bits == 4 ? "four" : "eight";
    return StoredBlocks{*std::move(matrix), true, name};
  }

  // Multiples of 1/128 (A) and 1/4096 (B) of which each row has the largest, so that 8 bits hold them
  // exactly.
  absl::StatusOr<std::optional<LowRankMatrices>> LoadLowRank(WeightKind kind,
                                                             std::int64_t layer) const override {
    const std::int64_t rank = rank_(kind, layer);
    if (rank == 0) return std::nullopt;
    const Shape shape = WeightShape(config_, kind);
    std::mt19937 random(static_cast<std::uint32_t>(kind) * 97u + static_cast<std::uint32_t>(layer));
    LowRankMatrices out{rank, Numbers(random, rank, shape[1], 128), Numbers(random, shape[0], rank, 4096)};
    return out;
  }

 private:
  static std::vector<float> Numbers(std::mt19937& random, std::int64_t rows, std::int64_t columns,
                                    int divisor) {
    std::vector<float> out;
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const int number = i % columns % kWeightGroup == 0 ? 127 : static_cast<int>(random() % 255) - 127;
      out.push_back(static_cast<float>(number) / static_cast<float>(divisor));
    }
    return out;
  }

  std::optional<QuantizedMatrix> Blocks(WeightKind kind, std::int64_t layer) const {
    const int bits = bits_(kind, layer);
    if (bits == 0 || WeightShape(config_, kind).rank() != 2) return std::nullopt;
    auto matrix = QuantizeMatrix(random_.Load(kind, layer)->view(), bits);
    if (!matrix.ok()) return std::nullopt;
    return *std::move(matrix);
  }

  const ModelConfig config_;
  const RandomWeights random_;
  const Bits bits_;
  const Rank rank_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_COMMON_MODEL_KEPT_WEIGHTS_H_
