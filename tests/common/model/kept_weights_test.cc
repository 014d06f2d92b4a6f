// A transformer over quantised matrices against one over the same numbers written out.
#include "tests/common/model/kept_weights.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/model/transformer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"

namespace scd {
namespace {

using testing::BlockConfig;
using testing::KeptWeights;

constexpr std::int64_t kManyRows = 100;

KeptWeights::Bits AllOf(int bits) {
  return [bits](WeightKind, std::int64_t) { return bits; };
}

std::int64_t NoAdapter(WeightKind, std::int64_t) {
  return 0;
}

bool IsLinear(WeightKind kind) {
  return kind != WeightKind::kEmbedding && kind != WeightKind::kLmHead;
}

struct Subject {
  std::string name;
  std::function<void(ModelConfig&)> change;
  KeptWeights::Bits bits;
  KeptWeights::Rank rank;
  std::string description;
};

const std::vector<Subject>& Subjects() {
  const auto nothing = [](ModelConfig&) {};
  static const auto* const subjects = new std::vector<Subject>{
      {"four_bits", nothing, AllOf(4), NoAdapter, "four"},
      {"eight_bits_biases_untied",
       [](ModelConfig& c) {
         c.qkv_bias = c.o_bias = c.mlp_bias = true;
         c.tie_word_embeddings = false;
       },
       AllOf(8), NoAdapter, "eight"},
      {"v_and_down_wider_qk_norm", [](ModelConfig& c) { c.qk_norm = true; },
       [](WeightKind kind, std::int64_t) {
         return kind == WeightKind::kV || kind == WeightKind::kDown ? 8 : 4;
       },
       NoAdapter, "eight, four"},
      {"v_and_embedding_dense", nothing,
       [](WeightKind kind, std::int64_t) {
         return kind == WeightKind::kV || kind == WeightKind::kEmbedding ? 0 : 4;
       },
       NoAdapter, "dense, four"},
      {"adapter", [](ModelConfig& c) { c.qkv_bias = true; }, AllOf(4),
       [](WeightKind kind, std::int64_t) { return IsLinear(kind) ? 8 : 0; }, "adapter apart, four"},
      {"adapter_on_some", [](ModelConfig& c) { c.qk_norm = true; }, AllOf(8),
       [](WeightKind kind, std::int64_t layer) {
         if (layer == 0) return kind == WeightKind::kQ || kind == WeightKind::kV ? 40 : 0;
         return kind == WeightKind::kK || kind == WeightKind::kUp ? 3 : 0;
       },
       "adapter apart, eight"},
      {"adapter_where_v_is_dense", nothing,
       [](WeightKind kind, std::int64_t) { return kind == WeightKind::kV ? 0 : 8; },
       [](WeightKind kind, std::int64_t) { return IsLinear(kind) ? 4 : 0; }, "adapter apart, dense, eight"},
  };
  return *subjects;
}

struct Loaded {
  Loaded(const Subject& subject, const std::string& device, WeightsFormat format) {
    config = BlockConfig();
    config.max_positions = 256;
    subject.change(config);
    backend = *CreateBackend({.device = device, .num_threads = 2, .math = MathMode::kF32});
    transformer = *Transformer::Create(config, KeptWeights(config, subject.bits, subject.rank), *backend,
                                       {.weights = format});
    workspace = *transformer->CreateWorkspace(kManyRows, kManyRows);
    cache = *PagedKvCache::Create(
        *backend, {config.num_layers, config.num_kv_heads, config.head_dim, 8, DType::kF32}, 64);
    sequence = *Sequence::Create(*cache, 200);
  }

  // Logits of all rows after those that were run before.
  std::vector<float> Run(std::int64_t rows) {
    std::vector<std::int32_t> tokens;
    const std::int64_t first = sequence->valid_length();
    for (std::int64_t i = 0; i < rows; ++i) {
      tokens.push_back(static_cast<std::int32_t>((first + i) * 17 % config.vocab_size));
    }
    const ForwardChunk chunk{sequence.get(), tokens, first, LogitsWanted::kAll};
    const absl::Status status = transformer->Forward(*workspace, {&chunk, 1});
    EXPECT_TRUE(status.ok()) << status;
    const ConstTensorView logits = workspace->logits();
    return std::vector<float>(logits.as<float>(), logits.as<float>() + logits.num_elements());
  }

  // K and V of layer 1 from an attention input.
  std::vector<float> Project(std::int64_t rows) {
    std::vector<float> input;
    for (std::int64_t i = 0; i < rows * config.hidden_size; ++i) {
      input.push_back(static_cast<float>(i * 37 % 101) / 50.0F - 1.0F);
    }
    std::vector<float> out(static_cast<std::size_t>(rows * 2 * config.d_kv()));
    const TensorView both(out.data(), DType::kF32, {rows, 2 * config.d_kv()});
    const absl::Status status =
        ProjectKv(*backend, workspace->stream(), transformer->kv_projection(1),
                  ConstTensorView(input.data(), DType::kF32, {rows, config.hidden_size}),
                  both.columns(0, config.d_kv()), both.columns(config.d_kv(), config.d_kv()));
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }

  ModelConfig config;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> transformer;
  std::unique_ptr<Transformer::Workspace> workspace;
  std::unique_ptr<PagedKvCache> cache;
  std::unique_ptr<Sequence> sequence;
};

// The largest difference over the largest expected magnitude.
double Error(const std::vector<float>& actual, const std::vector<float>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double difference = 0.0;
  double magnitude = 0.0;
  for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    difference = std::max<double>(difference, std::abs(actual[i] - expected[i]));
    magnitude = std::max<double>(magnitude, std::abs(expected[i]));
  }
  return difference / magnitude;
}

class KeptWeightsTest : public ::testing::TestWithParam<Subject> {};

TEST_P(KeptWeightsTest, OnTheReferenceBackendAnyNumberOfRowsIsExact) {
  Loaded kept(GetParam(), "reference", WeightsFormat::kAuto);
  Loaded dense(GetParam(), "reference", WeightsFormat::kF32);
  EXPECT_EQ(kept.transformer->weights_description(), GetParam().description);
  EXPECT_EQ(dense.transformer->weights_description(), "dense");
  EXPECT_LT(Error(kept.Run(20), dense.Run(20)), 2e-5);
  EXPECT_LT(Error(kept.Run(1), dense.Run(1)), 2e-5);
  EXPECT_LT(Error(kept.Project(9), dense.Project(9)), 2e-5);
}

TEST_P(KeptWeightsTest, OnTheCpuManyRowsAreExactAndFewAreNear) {
  Loaded kept(GetParam(), "cpu", WeightsFormat::kAuto);
  Loaded dense(GetParam(), "cpu", WeightsFormat::kF32);
  EXPECT_LT(Error(kept.Run(kManyRows), dense.Run(kManyRows)), 5e-5);
  EXPECT_LT(Error(kept.Project(kManyRows), dense.Project(kManyRows)), 5e-5);
  for (int step = 0; step < 4; ++step) EXPECT_LT(Error(kept.Run(1), dense.Run(1)), 0.05);
  EXPECT_LT(Error(kept.Project(3), dense.Project(3)), 0.02);
}

// What a sequence decodes does not depend on which others are decoded with it.
TEST_P(KeptWeightsTest, ADecodedRowIsTheSameInAnyBatch) {
  Loaded kept(GetParam(), "cpu", WeightsFormat::kAuto);
  std::vector<std::unique_ptr<Sequence>> others;
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 18; ++i) {
    others.push_back(*Sequence::Create(*kept.cache, 16));
    tokens.push_back(7 * i % 50);
  }
  std::vector<float> alone;
  for (const std::size_t batch : {1, 2, 5, 18}) {
    std::vector<ForwardChunk> chunks;
    for (std::size_t i = 0; i < batch; ++i) {
      chunks.push_back({others[i].get(), {&tokens[i], 1}, 0, LogitsWanted::kLast});
    }
    const absl::Status status = kept.transformer->Forward(*kept.workspace, chunks);
    ASSERT_TRUE(status.ok()) << status;
    const float* const first = kept.workspace->logits().row<float>(0);
    const std::vector<float> logits(first, first + kept.config.vocab_size);
    if (batch == 1) alone = logits;
    EXPECT_EQ(logits, alone) << "batch of " << batch;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, KeptWeightsTest, ::testing::ValuesIn(Subjects()),
                         [](const auto& info) { return info.param.name; });

// Quantising at load takes what Load gives, the adapter merged.
TEST(QuantisedAtLoadTest, IsNearTheDenseModel) {
  const Subject subject{"", [](ModelConfig& c) { c.num_layers = 1; }, AllOf(0),
                        [](WeightKind kind, std::int64_t) { return IsLinear(kind) ? 8 : 0; }, ""};
  Loaded dense(subject, "reference", WeightsFormat::kF32);
  Loaded eight(subject, "reference", WeightsFormat::kInt8);
  Loaded four(subject, "reference", WeightsFormat::kInt4);
  EXPECT_EQ(eight.transformer->weights_description(), "int8");
  EXPECT_EQ(four.transformer->weights_description(), "adapter apart, int4, int8");
  const std::vector<float> expected = dense.Run(20);
  const double error8 = Error(eight.Run(20), expected);
  const double error4 = Error(four.Run(20), expected);
  EXPECT_LT(error8, 0.03);
  EXPECT_GT(error8, 1e-4);
  EXPECT_LT(error4, 0.8);
  EXPECT_GT(error4, 2 * error8);
}

TEST(QuantisedAtLoadTest, WidthsThatGroupsDoNotDivideAreRefusedByName) {
  const ModelConfig config = testing::SmallConfig();  // hidden 24
  const auto backend = *CreateBackend({.device = "cpu", .num_threads = 1, .math = MathMode::kF32});
  const absl::Status status =
      Transformer::Create(config, testing::RandomWeights(config), *backend, {.weights = WeightsFormat::kInt8})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("embedding"));
}

TEST(QuantisedAtLoadTest, SaysHowMuchMemoryTheWeightsTake) {
  const Subject subject{"", [](ModelConfig&) {}, AllOf(4), NoAdapter, ""};
  const auto bytes = [&](WeightsFormat format) {
    return Loaded(subject, "cpu", format).transformer->weight_bytes();
  };
  const ModelConfig config = BlockConfig();
  std::int64_t numbers = 2 * WeightShape(config, WeightKind::kEmbedding).num_elements();
  for (const WeightKind kind : LayerWeightKinds(config)) {
    const Shape shape = WeightShape(config, kind);
    if (shape.rank() == 2) numbers += config.num_layers * shape.num_elements();
  }
  EXPECT_EQ(bytes(WeightsFormat::kF32), 4 * numbers);
  EXPECT_LT(bytes(WeightsFormat::kInt8), bytes(WeightsFormat::kF32));
  EXPECT_LT(bytes(WeightsFormat::kAuto), bytes(WeightsFormat::kInt8));
}

}  // namespace
}  // namespace scd
