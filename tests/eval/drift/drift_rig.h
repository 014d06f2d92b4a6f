// A pair of small random models and bundles for it. make_expected_drift.py makes the same pair and bundle.
#ifndef SCD_TESTS_EVAL_DRIFT_DRIFT_RIG_H_
#define SCD_TESTS_EVAL_DRIFT_DRIFT_RIG_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/bundle/bundle.h"
#include "common/bundle/bundle_writer.h"
#include "common/model/transformer.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "tests/support/random_weights.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd::testing {

// RandomWeights with a part of another set's matrices added.
class DisturbedWeights final : public WeightStore {
 public:
  DisturbedWeights(const ModelConfig& config, float strength)
      : own_(config, 1), other_(config, 2), strength_(strength) {}

  absl::StatusOr<HostTensor> Load(WeightKind kind, std::int64_t layer) const override {
    HostTensor own = *own_.Load(kind, layer);
    const Shape shape = own.view().shape();
    if (shape.rank() != 2) return own;
    std::vector<float> values = std::move(own).TakeFloats();
    const std::vector<float> other = std::move(*other_.Load(kind, layer)).TakeFloats();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += strength_ * other[i];
    return HostTensor(std::move(values), shape);
  }

 private:
  const RandomWeights own_, other_;
  const float strength_;
};

inline std::vector<std::int32_t> DriftTokens(std::int32_t first, std::int32_t count) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = first; i < first + count; ++i) tokens.push_back((i * 17 + 3) % 50);
  return tokens;
}

struct DriftRig {
  static constexpr std::int64_t kPrompt = 31;
  static constexpr std::int64_t kContinuation = 6;

  // strength 0: the consumer's weights are the producer's.
  DriftRig(const std::string& device, float strength, double consumer_theta) {
    config.qkv_bias = config.qk_norm = true;
    backend = *CreateBackend({.device = device, .num_threads = 2, .math = MathMode::kF32});
    producer = *Transformer::Create(config, RandomWeights(config), *backend);
    ModelConfig consumer_config = config;
    consumer_config.rope.theta = consumer_theta;
    consumer = *Transformer::Create(consumer_config, DisturbedWeights(config, strength), *backend);
  }

  // Nearly the identity: ones on the diagonals of encoders and decoders, and small numbers everywhere.
  std::unique_ptr<Bundle> NoisyBundle() const {
    TinyBundleOptions options;
    options.max_rank_k = 12;
    options.default_rank_k = 10;
    options.max_rank_v = 14;
    options.default_rank_v = 13;
    options.ranks_h = {16};
    options.native_head = 2;
    options.native_tail = 3;
    options.fused = FusedShape();  // no part of what drifts here
    options.distortions.clear();
    const BundleManifest manifest = TinyManifest(config, MadeUpModel("a"), MadeUpModel("b"), options);
    BundleTensorValues values(manifest, false, 1);
    std::uint32_t seed = 1000;
    for (auto& [name, tensor] : values.tensors()) {
      std::mt19937 random(seed++);
      for (float& value : tensor.values) {
        value = 0.1f * (static_cast<float>(random() % 20001) / 10000.0f - 1.0f);
      }
      if (!name.ends_with("coder")) continue;
      for (std::int64_t i = 0; i < std::min(tensor.shape[0], tensor.shape[1]); ++i) {
        tensor.values[static_cast<std::size_t>(i * tensor.shape[1] + i)] += 1.0f;
      }
    }
    const auto written = WriteBundle(dir.File("noisy"), manifest, values.Named());
    EXPECT_TRUE(written.ok()) << written.status();
    return *Bundle::Open(dir.File("noisy"));
  }

  std::unique_ptr<Bundle> IdentityBundle(std::vector<std::int32_t> untranslatable_ids = {}) const {
    TinyBundleOptions options;
    options.identity = true;
    options.untranslatable_ids = std::move(untranslatable_ids);
    const auto written =
        WriteTinyBundle(dir.File("identity"), config, MadeUpModel("a"), MadeUpModel("b"), options);
    EXPECT_TRUE(written.ok()) << written.status();
    return *Bundle::Open(dir.File("identity"));
  }

  TempDir dir;
  ModelConfig config = SmallConfig();
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> producer;
  std::unique_ptr<Transformer> consumer;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_EVAL_DRIFT_DRIFT_RIG_H_
