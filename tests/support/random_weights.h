// A small model with random weights that needs no files, for tests that are not about any particular model.
#ifndef SCD_TESTS_SUPPORT_RANDOM_WEIGHTS_H_
#define SCD_TESTS_SUPPORT_RANDOM_WEIGHTS_H_

#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/model_config.h"
#include "common/model/weight_store.h"

namespace scd::testing {

// 3 layers, 4 heads over 2 KV heads of 8, hidden 24, vocabulary 50, 64 positions.
inline ModelConfig SmallConfig() {
  ModelConfig config;
  config.num_layers = 3;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.vocab_size = 50;
  config.max_positions = 64;
  config.tie_word_embeddings = true;
  return config;
}

// Matrices scaled by their width, norms around 1, biases around 0.2: spread, so that mistakes show. Equal
// seeds give equal weights.
class RandomWeights final : public WeightStore {
 public:
  explicit RandomWeights(ModelConfig config, std::uint32_t seed = 1)
      : config_(std::move(config)), seed_(seed) {}

  absl::StatusOr<HostTensor> Load(WeightKind kind, std::int64_t layer) const override {
    const Shape shape = WeightShape(config_, kind);
    std::mt19937 random(seed_ * 7919u + static_cast<std::uint32_t>(kind) * 131u +
                        static_cast<std::uint32_t>(layer));
    std::vector<float> values(static_cast<std::size_t>(shape.num_elements()));
    for (float& value : values) {
      const float u = static_cast<float>(random() % 20001) / 10000.0f - 1.0f;  // [-1, 1]
      value = shape.rank() == 2 ? u * 1.2f / std::sqrt(static_cast<float>(shape[1]))
              : IsNorm(kind)    ? 1.0f + 0.4f * u
                                : 0.3f * u;
    }
    return HostTensor(std::move(values), shape);
  }

 private:
  static bool IsNorm(WeightKind kind) {
    return kind == WeightKind::kFinalNorm || kind == WeightKind::kAttentionNorm ||
           kind == WeightKind::kMlpNorm || kind == WeightKind::kQNorm || kind == WeightKind::kKNorm;
  }

  const ModelConfig config_;
  const std::uint32_t seed_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_SUPPORT_RANDOM_WEIGHTS_H_
