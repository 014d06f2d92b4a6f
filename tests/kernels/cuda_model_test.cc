// A whole model on the cuda backend: the transformer's own code, which must treat device memory as such, over
// every op.
#include <cmath>
#include <functional>

#include "common/model/transformer.h"
#include "gtest/gtest.h"
#include "tests/kernels/cuda_options.h"
#include "tests/support/random_weights.h"

namespace scd::testing {
namespace {

std::vector<std::int32_t> Tokens(std::int64_t count) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < count; ++i) tokens.push_back((i * 17 + 3) % 50);
  return tokens;
}

// Logits of all positions, computed in chunks of 9 tokens and then one by one, beside another sequence.
std::vector<float> Logits(const BackendOptions& options, const ModelConfig& config, DType pages) {
  const auto backend = *CreateBackend(options);
  const auto transformer = *Transformer::Create(config, RandomWeights(config), *backend);
  const auto workspace = *transformer->CreateWorkspace(24, 24);
  const auto cache = *PagedKvCache::Create(
      *backend, {config.num_layers, config.num_kv_heads, config.head_dim, 8, pages}, 20);
  const auto sequence = *Sequence::Create(*cache, 40);
  const auto other = *Sequence::Create(*cache, 40);
  const std::vector<std::int32_t> tokens = Tokens(24);
  std::vector<float> all;
  for (std::size_t begin = 0; begin < tokens.size();) {
    const std::size_t count = begin < 18 ? 9 : 1;
    const auto piece = absl::MakeConstSpan(tokens).subspan(begin, count);
    const auto first = static_cast<std::int64_t>(begin);
    const ForwardChunk chunks[] = {{sequence.get(), piece, first, LogitsWanted::kAll},
                                   {other.get(), piece, first, LogitsWanted::kNone}};
    const absl::Status status = transformer->Forward(*workspace, chunks);
    EXPECT_TRUE(status.ok()) << status;
    const ConstTensorView logits = workspace->logits();
    for (std::size_t row = 0; row < count; ++row) {
      const float* numbers = logits.row<float>(static_cast<std::int64_t>(row));
      all.insert(all.end(), numbers, numbers + logits.dim(1));
    }
    begin += count;
  }
  return all;
}

void ExpectSameAsReference(const std::function<void(ModelConfig&)>& change, DType pages, double tolerance) {
  ModelConfig config = SmallConfig();
  change(config);
  const std::vector<float> expected = Logits({.device = "reference", .math = MathMode::kF32}, config, pages);
  const std::vector<float> actual = Logits(TestedCudaOptions(MathMode::kF32), config, pages);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], tolerance) << "at " << i;
}

TEST(CudaModelTest, Plain) {
  ExpectSameAsReference([](ModelConfig&) {}, DType::kF32, 2e-5);
}

TEST(CudaModelTest, NormsBiasesAndWindows) {
  ExpectSameAsReference(
      [](ModelConfig& c) {
        c.qk_norm = true;
        c.qkv_bias = c.o_bias = c.mlp_bias = true;
        c.sliding_window = {0, 3, 9};
        c.tie_word_embeddings = false;
      },
      DType::kF32, 2e-5);
}

// Numbers that differ in their last bits may round to neighbours.
TEST(CudaModelTest, RoundedPages) {
  ExpectSameAsReference([](ModelConfig&) {}, DType::kBF16, 2e-2);
  ExpectSameAsReference([](ModelConfig&) {}, DType::kI8, 4e-2);
}

}  // namespace
}  // namespace scd::testing
