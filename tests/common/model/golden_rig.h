// A model from disk on a backend, with what the golden tests ask of it.
#ifndef SCD_TESTS_COMMON_MODEL_GOLDEN_RIG_H_
#define SCD_TESTS_COMMON_MODEL_GOLDEN_RIG_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/model/model_source.h"
#include "common/model/transformer.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"

namespace scd::testing {

struct GoldenRig {
  static absl::StatusOr<GoldenRig> Make(const std::string& device, const ModelSource& source,
                                        std::int64_t max_rows, std::int64_t num_pages) {
    GoldenRig rig;
    auto model = OpenModel(source);
    if (!model.ok()) return model.status();
    auto backend = CreateBackend({.device = device, .num_threads = 0, .math = MathMode::kF32});
    if (!backend.ok()) return backend.status();
    rig.backend = *std::move(backend);
    auto transformer =
        Transformer::Create(model->config, *model->weights, *rig.backend, {.weights = source.weights});
    if (!transformer.ok()) return transformer.status();
    rig.transformer = *std::move(transformer);
    rig.workspace = *rig.transformer->CreateWorkspace(max_rows, std::min<std::int64_t>(max_rows, 256));
    const ModelConfig& c = model->config;
    auto cache = PagedKvCache::Create(*rig.backend,
                                      {c.num_layers, c.num_kv_heads, c.head_dim, 32, DType::kF32}, num_pages);
    if (!cache.ok()) return cache.status();
    rig.cache = *std::move(cache);
    return rig;
  }

  std::unique_ptr<Sequence> NewSequence(std::size_t max_tokens) const {
    auto sequence = Sequence::Create(*cache, static_cast<std::int64_t>(max_tokens));
    EXPECT_TRUE(sequence.ok()) << sequence.status();
    return *std::move(sequence);
  }

  void Run(const std::vector<ForwardChunk>& chunks, LayerTap* tap = nullptr) const {
    const absl::Status status = transformer->Forward(*workspace, chunks, {.tap = tap});
    ASSERT_TRUE(status.ok()) << status;
  }

  // Row of the last pass's logits.
  std::vector<float> Logits(std::int64_t row) const {
    const ConstTensorView logits = workspace->logits();
    return std::vector<float>(logits.row<float>(row), logits.row<float>(row) + logits.dim(1));
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> transformer;
  std::unique_ptr<Transformer::Workspace> workspace;
  std::unique_ptr<PagedKvCache> cache;
};

inline std::int32_t ArgMax(const std::vector<float>& logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// A continuation of several prompts at once, each by its own best tokens: sequences[i] holds prompt i,
// next[i] is the token after it. Returns `count` tokens for each.
inline std::vector<std::vector<std::int32_t>> ContinueGreedily(
    const GoldenRig& rig, const std::vector<std::unique_ptr<Sequence>>& sequences,
    std::vector<std::int32_t> next, std::size_t count) {
  std::vector<std::vector<std::int32_t>> tokens(sequences.size());
  for (std::size_t step = 0; step < count; ++step) {
    std::vector<ForwardChunk> chunks;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      tokens[i].push_back(next[i]);
      chunks.push_back(
          {sequences[i].get(), {&next[i], 1}, sequences[i]->valid_length(), LogitsWanted::kLast});
    }
    if (step + 1 == count) break;
    rig.Run(chunks);
    for (std::size_t i = 0; i < sequences.size(); ++i)
      next[i] = ArgMax(rig.Logits(static_cast<std::int64_t>(i)));
  }
  return tokens;
}

// The first and last row of everything that chosen layers show.
class EdgeRows final : public LayerTap {
 public:
  struct Layer {
    std::vector<float> k_first, k_last, v_first, v_last, h_first, h_last;
  };

  explicit EdgeRows(std::vector<std::int64_t> wanted) : wanted_(std::move(wanted)) {}

  TapKinds Wanted(std::int64_t layer) const override {
    const bool want = std::find(wanted_.begin(), wanted_.end(), layer) != wanted_.end();
    return want ? TapKind::kKPreRope | TapKind::kV | TapKind::kAttentionInput : TapKinds();
  }
  absl::Status OnLayer(const LayerView& view) override {
    const auto row = [](const ConstTensorView& v, bool last) {
      const float* begin = v.row<float>(last ? v.dim(0) - 1 : 0);
      return std::vector<float>(begin, begin + v.dim(1));
    };
    layers[view.layer] = {
        row(view.k_pre_rope, false), row(view.k_pre_rope, true),       row(view.v, false),
        row(view.v, true),           row(view.attention_input, false), row(view.attention_input, true)};
    return absl::OkStatus();
  }

  std::map<std::int64_t, Layer> layers;

 private:
  const std::vector<std::int64_t> wanted_;
};

// The largest difference relative to the largest expected magnitude; infinite where sizes differ.
inline double RelativeError(const std::vector<float>& actual, const std::vector<double>& expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double difference = 0.0;
  double magnitude = 0.0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    difference = std::max(difference, std::abs(actual[i] - expected[i]));
    magnitude = std::max(magnitude, std::abs(expected[i]));
  }
  return difference / magnitude;
}

}  // namespace scd::testing

#endif  // SCD_TESTS_COMMON_MODEL_GOLDEN_RIG_H_
