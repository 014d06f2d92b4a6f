#include "common/model/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "common/io/safetensors.h"
#include "common/model/hf_names.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::GgufBuilder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// One layer, 2 heads of 4 over 1 key-value head, everything f32.
GgufBuilder OneLayer(const std::string& architecture) {
  const auto key = [&architecture](const char* name) { return architecture + "." + name; };
  GgufBuilder builder;
  builder.String("general.architecture", architecture)
      .U32(key("block_count"), 1)
      .U32(key("context_length"), 64)
      .U32(key("embedding_length"), 8)
      .U32(key("feed_forward_length"), 16)
      .U32(key("attention.head_count"), 2)
      .U32(key("attention.head_count_kv"), 1)
      .F32(key("attention.layer_norm_rms_epsilon"), 1e-5F)
      .F32(key("rope.freq_base"), 10000)
      .F32Tensor("token_embd.weight", {5, 8}, 0)
      .F32Tensor("output_norm.weight", {8}, 0)
      .F32Tensor("blk.0.attn_norm.weight", {8}, 0)
      .F32Tensor("blk.0.attn_q.weight", {8, 8}, 0)
      .F32Tensor("blk.0.attn_k.weight", {4, 8}, 0)
      .F32Tensor("blk.0.attn_v.weight", {4, 8}, 0)
      .F32Tensor("blk.0.attn_output.weight", {8, 8}, 0)
      .F32Tensor("blk.0.ffn_norm.weight", {8}, 0)
      .F32Tensor("blk.0.ffn_gate.weight", {16, 8}, 0)
      .F32Tensor("blk.0.ffn_up.weight", {16, 8}, 0)
      .F32Tensor("blk.0.ffn_down.weight", {8, 16}, 0);
  return builder;
}

class GgufModelTest : public ::testing::Test {
 protected:
  std::shared_ptr<const GgufFile> Open(const GgufBuilder& builder) {
    testing::WriteFile(path_, builder.Build());
    auto file = GgufFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? std::shared_ptr<const GgufFile>(*std::move(file)) : nullptr;
  }
  ModelConfig Config(const GgufBuilder& builder) {
    const auto config = ParseGgufConfig(*Open(builder));
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? *config : ModelConfig();
  }
  void ExpectRefused(const GgufBuilder& builder, const std::string& what) {
    const auto file = Open(builder);
    const auto config = ParseGgufConfig(*file);
    const absl::Status status = config.ok() ? OpenGgufWeights(file, *config).status() : config.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(StartsWith(path_ + ": "), HasSubstr(what)));
  }

  testing::TempDir dir_;
  const std::string path_ = dir_.File("m.gguf");
};

TEST_F(GgufModelTest, ReadsHyperParameters) {
  const ModelConfig config = Config(OneLayer("llama")
                                        .U32("llama.vocab_size", 5)
                                        .U32("llama.rope.dimension_count", 4)
                                        .U32("tokenizer.ggml.bos_token_id", 1)
                                        .U32("tokenizer.ggml.eos_token_id", 2)
                                        .U32("tokenizer.ggml.eot_token_id", 3));
  EXPECT_EQ(config.architecture, Architecture::kLlama);
  EXPECT_EQ(config.num_layers, 1);
  EXPECT_EQ(config.hidden_size, 8);
  EXPECT_EQ(config.intermediate_size, 16);
  EXPECT_EQ(config.num_heads, 2);
  EXPECT_EQ(config.num_kv_heads, 1);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.vocab_size, 5);
  EXPECT_EQ(config.max_positions, 64);
  EXPECT_FLOAT_EQ(static_cast<float>(config.rms_norm_eps), 1e-5F);
  EXPECT_EQ(config.rope, RopeConfig());
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_FALSE(config.qkv_bias || config.o_bias || config.mlp_bias || config.qk_norm);
  EXPECT_THAT(config.sliding_window, IsEmpty());
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2, 3));
}

TEST_F(GgufModelTest, ReadsOtherForms) {
  EXPECT_FALSE(Config(OneLayer("llama").F32Tensor("output.weight", {5, 8}, 0)).tie_word_embeddings);
  EXPECT_THAT(Config(OneLayer("llama").U32("llama.attention.sliding_window", 16)).sliding_window,
              ElementsAre(16));
  EXPECT_EQ(Config(OneLayer("llama")
                       .Remove("llama.attention.head_count_kv")
                       .Array<std::uint32_t>("llama.attention.head_count_kv", 4, {1}))
                .num_kv_heads,
            1);
  const ModelConfig qwen3 = Config(OneLayer("qwen3").U32("qwen3.attention.key_length", 6));
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.head_dim, 6);
  EXPECT_TRUE(Config(OneLayer("qwen2")).qkv_bias);
}

TEST_F(GgufModelTest, ReadsRopeScaling) {
  EXPECT_EQ(Config(OneLayer("llama").F32("llama.rope.scale_linear", 4)).rope.type, RopeType::kLinear);
  const RopeConfig linear =
      Config(
          OneLayer("llama").String("llama.rope.scaling.type", "linear").F32("llama.rope.scaling.factor", 2))
          .rope;
  EXPECT_EQ(linear.type, RopeType::kLinear);
  EXPECT_EQ(linear.factor, 2.0);
  const auto yarn = [] {
    return OneLayer("qwen2")
        .String("qwen2.rope.scaling.type", "yarn")
        .F32("qwen2.rope.scaling.factor", 4)
        .U32("qwen2.rope.scaling.original_context_length", 16);
  };
  const RopeConfig plain = Config(yarn()).rope;
  EXPECT_EQ(plain.type, RopeType::kYarn);
  EXPECT_EQ(plain.factor, 4.0);
  EXPECT_EQ(plain.original_max_positions, 16);
  EXPECT_EQ(plain.attention_factor, std::nullopt);
  const RopeConfig sharper = Config(yarn().F32("qwen2.rope.scaling.attn_factor", 2)).rope;
  EXPECT_DOUBLE_EQ(sharper.attention_factor.value(), 2 * (1 + 0.1 * std::log(4.0)));
  ExpectRefused(yarn().F32("qwen2.rope.scaling.yarn_log_multiplier", 0.1F),
                "yarn_log_multiplier: is not supported");
  ExpectRefused(OneLayer("llama").String("llama.rope.scaling.type", "longrope"),
                "\"longrope\" is not supported");
  ExpectRefused(OneLayer("llama").U32("llama.rope.dimension_count", 2), "rotating 2 of the 4 elements");
  ExpectRefused(
      OneLayer("llama").String("llama.rope.scaling.type", "none").F32("llama.rope.scaling.factor", 2),
      "llama.rope.scaling.factor: is given although the type is none");
}

// The divisors that llama.cpp's converter writes for Llama 3.1's parameters.
std::string Llama3Factors(double factor, double theta, int head_dim) {
  std::string data;
  for (int i = 0; i < head_dim; i += 2) {
    const double wave_length = 2 * std::numbers::pi * std::pow(theta, static_cast<double>(i) / head_dim);
    double divisor = factor;
    if (wave_length < 8192.0 / 4) {
      divisor = 1;
    } else if (wave_length <= 8192.0) {
      const double smooth = (8192.0 / wave_length - 1) / 3;
      divisor = 1 / ((1 - smooth) / factor + smooth);
    }
    data += GgufBuilder::Raw(static_cast<float>(divisor));
  }
  return data;
}

TEST_F(GgufModelTest, FrequencyFactorsOfLlama3AreHonouredAndOthersRefused) {
  const auto llama3 = [](const std::string& factors) {
    return OneLayer("llama")
        .Remove("llama.rope.freq_base")
        .F32("llama.rope.freq_base", 500000)
        .U32("llama.attention.key_length", 64)
        .Tensor("rope_freqs.weight", {factors.size() / 4}, 0, factors);
  };
  const RopeConfig rope = Config(llama3(Llama3Factors(32, 500000, 64))).rope;
  EXPECT_EQ(rope.type, RopeType::kLlama3);
  EXPECT_EQ(rope.factor, 32.0);
  EXPECT_EQ(rope.low_freq_factor, 1.0);
  EXPECT_EQ(rope.high_freq_factor, 4.0);
  EXPECT_EQ(rope.original_max_positions, 8192);

  std::string ones;
  for (int i = 0; i < 32; ++i) ones += GgufBuilder::Raw(1.0F);
  EXPECT_EQ(Config(llama3(ones)).rope.type, RopeType::kDefault);

  std::string other = Llama3Factors(32, 500000, 64);
  other.replace(0, 4, GgufBuilder::Raw(1.1F));
  ExpectRefused(llama3(other), "rope_freqs.weight: is not Llama 3's scaling (pair 0");
  other.replace(0, 4, GgufBuilder::Raw(std::nanf("")));
  ExpectRefused(llama3(other), "rope_freqs.weight: a factor is below 1 or not finite");
  ExpectRefused(llama3(ones.substr(4)), "rope_freqs.weight: expected f32 [32]");
}

TEST_F(GgufModelTest, RefusesWhatItDoesNotCompute) {
  ExpectRefused(OneLayer("gemma"), "general.architecture: \"gemma\" is not supported");
  ExpectRefused(OneLayer("llama").Remove("llama.block_count"), "llama.block_count: missing");
  ExpectRefused(OneLayer("llama").U32("llama.expert_count", 8), "llama.expert_count: is not supported");
  EXPECT_EQ(Config(OneLayer("llama").U32("llama.expert_count", 0)).num_layers, 1);
  ExpectRefused(OneLayer("llama").U32("llama.attention.value_length", 8), "llama.attention.value_length");
  ExpectRefused(OneLayer("llama").U32("llama.vocab_size", 6),
                "llama.vocab_size: is 6, but token_embd.weight");
  ExpectRefused(OneLayer("llama").Remove("token_embd.weight"), "token_embd.weight: missing");
  ExpectRefused(OneLayer("llama").Remove("blk.0.attn_v.weight"), "blk.0.attn_v.weight: missing");
  ExpectRefused(OneLayer("llama").Remove("blk.0.attn_v.weight").F32Tensor("blk.0.attn_v.weight", {8, 4}, 0),
                "blk.0.attn_v.weight: expected shape [4, 8] by the hyper-parameters, got [8, 4]");
  ExpectRefused(OneLayer("llama").F32Tensor("blk.0.ffn_gate_inp.weight", {2, 8}, 0),
                "blk.0.ffn_gate_inp.weight: the architecture has no such tensor");
  ExpectRefused(OneLayer("llama").F32Tensor("blk.1.attn_norm.weight", {8}, 0), "blk.1.attn_norm.weight");
  ExpectRefused(OneLayer("qwen2"), "blk.0.attn_q.bias: missing");
  ExpectRefused(OneLayer("qwen3"), "blk.0.attn_q_norm.weight: missing");
  ExpectRefused(OneLayer("llama")
                    .Remove("llama.attention.head_count")
                    .Array<std::uint32_t>("llama.attention.head_count", 4, {2, 1}),
                "llama.attention.head_count: values that differ between layers");
}

TEST_F(GgufModelTest, HostileBlockCountIsRefused) {
  SCD_SHARED_OR_SKIP(path, "cases/gguf/block_count_is_a_string.gguf");
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(ParseGgufConfig(**file).status().message(),
            path + ": llama.block_count: expected an integer, got string");
}

// Rows of llama files come back in rotate-half order, biases too; qwen files keep theirs.
TEST_F(GgufModelTest, UnPermutesQAndKOfLlamaOnly) {
  for (const bool llama : {true, false}) {
    const auto file = Open(OneLayer(llama ? "llama" : "qwen2")
                               .F32Tensor("blk.0.attn_q.bias", {8}, 0)
                               .F32Tensor("blk.0.attn_k.bias", {4}, 0)
                               .F32Tensor("blk.0.attn_v.bias", {4}, 0));
    const auto config = ParseGgufConfig(*file);
    ASSERT_TRUE(config.ok()) << config.status();
    const auto weights = OpenGgufWeights(file, *config);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const auto first_of_rows = [&](WeightKind kind) {
      const auto tensor = (*weights)->Load(kind, 0);
      EXPECT_TRUE(tensor.ok()) << tensor.status();
      std::vector<float> out;
      for (std::int64_t row = 0; row < tensor->view().dim(0); ++row)
        out.push_back(*tensor->view().row<float>(row));
      return out;
    };
    if (llama) {
      EXPECT_THAT(first_of_rows(WeightKind::kQ), ElementsAre(0, 16, 8, 24, 32, 48, 40, 56));
      EXPECT_THAT(first_of_rows(WeightKind::kK), ElementsAre(0, 16, 8, 24));
      EXPECT_THAT(first_of_rows(WeightKind::kQBias), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
      EXPECT_THAT(first_of_rows(WeightKind::kKBias), ElementsAre(0, 2, 1, 3));
    } else {
      EXPECT_THAT(first_of_rows(WeightKind::kQ), ElementsAre(0, 8, 16, 24, 32, 40, 48, 56));
      EXPECT_THAT(first_of_rows(WeightKind::kKBias), ElementsAre(0, 1, 2, 3));
    }
    EXPECT_THAT(first_of_rows(WeightKind::kV), ElementsAre(0, 8, 16, 24));
    EXPECT_THAT(first_of_rows(WeightKind::kVBias), ElementsAre(0, 1, 2, 3));
  }
}

TEST_F(GgufModelTest, NumbersMustBeFinite) {
  GgufBuilder builder =
      OneLayer("llama").Remove("blk.0.attn_v.weight").F32Tensor("blk.0.attn_v.weight", {4, 8}, INFINITY);
  const auto whole = Open(builder);
  const auto weights = OpenGgufWeights(whole, Config(builder));
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE((*weights)->Load(WeightKind::kK, 0).ok());
  EXPECT_EQ((*weights)->Load(WeightKind::kV, 0).status().message(),
            path_ + ": blk.0.attn_v.weight: holds a number that is NaN or infinite");
}

// A file that the gguf package wrote from tests/data/tiny-llama gives that model's weights back.
TEST_F(GgufModelTest, ReadsAConvertedModel) {
  auto opened = GgufFile::Open(testing::TestDataPath("gguf/tiny-llama.gguf"));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::shared_ptr<const GgufFile> file = *std::move(opened);
  const auto config = ParseGgufConfig(*file);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->vocab_size, 320);
  EXPECT_EQ(config->rope.theta, 100000.0);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(2, 0));
  const auto weights = OpenGgufWeights(file, *config);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto original = SafetensorsFile::Open(testing::TestDataPath("tiny-llama/model.safetensors"));
  ASSERT_TRUE(original.ok()) << original.status();

  const auto expect_near = [&](WeightKind kind, std::int64_t layer, float tolerance) {
    const std::string name = HfWeightName(kind, layer);
    auto tensor = (*weights)->Load(kind, layer);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    const std::vector<float> got = std::move(*tensor).TakeFloats();
    const std::vector<float> wanted = HostTensor((*original)->Get(name).value()).TakeFloats();
    ASSERT_LE(got.size(), wanted.size()) << name;
    float largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) largest = std::max(largest, std::abs(wanted[i]));
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], wanted[i], tolerance * largest) << name << " element " << i;
    }
  };
  expect_near(WeightKind::kEmbedding, -1, 0);
  expect_near(WeightKind::kFinalNorm, -1, 0);
  for (const std::int64_t layer : {0, 1}) {
    const float attention = layer == 0 ? 0 : 1.0F / 200;  // bf16, then q8_0
    expect_near(WeightKind::kQ, layer, attention);
    expect_near(WeightKind::kK, layer, attention);
    expect_near(WeightKind::kV, layer, attention);
    expect_near(WeightKind::kO, layer, attention);
    expect_near(WeightKind::kAttentionNorm, layer, 0);
    expect_near(WeightKind::kMlpNorm, layer, 0);
    expect_near(WeightKind::kGate, layer, 1.0F / 8);
    expect_near(WeightKind::kUp, layer, 1.0F / 16);
    expect_near(WeightKind::kDown, layer, 1.0F / 200);
  }
}

}  // namespace
}  // namespace scd
