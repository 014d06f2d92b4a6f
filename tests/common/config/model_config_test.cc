#include "common/config/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace scd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ModelConfig Small() {
  ModelConfig config;
  config.num_layers = 2;
  config.hidden_size = 64;
  config.intermediate_size = 160;
  config.num_heads = 8;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.vocab_size = 1024;
  config.max_positions = 512;
  return config;
}

TEST(ModelConfigTest, Sizes) {
  const ModelConfig config = Small();
  EXPECT_TRUE(config.Validate("x").ok());
  EXPECT_EQ(config.d_kv(), 16);
  EXPECT_EQ(config.d_q(), 64);
  EXPECT_EQ(config.raw_kv_bytes_per_token(), 2 * 2 * 16 * 2);
  EXPECT_EQ(ArchitectureName(Architecture::kQwen3), "qwen3");
  EXPECT_EQ(RopeTypeName(RopeType::kYarn), "yarn");
}

TEST(ModelConfigTest, ValidateNamesTheField) {
  const auto expect_refused = [](const std::function<void(ModelConfig&)>& change, const std::string& what) {
    ModelConfig config = Small();
    change(config);
    const absl::Status status = config.Validate("c.json");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(std::string(status.message()), AllOf(StartsWith("c.json: "), HasSubstr(what)));
  };
  expect_refused([](ModelConfig& c) { c.num_layers = 0; },
                 "number of layers: expected a value in [1, 1024], got 0");
  expect_refused([](ModelConfig& c) { c.hidden_size = -64; }, "hidden size");
  expect_refused([](ModelConfig& c) { c.intermediate_size = std::int64_t{1} << 40; }, "intermediate size");
  expect_refused([](ModelConfig& c) { c.num_heads = 0; }, "number of attention heads");
  expect_refused([](ModelConfig& c) { c.num_kv_heads = 3; }, "8 is not a multiple of the 3 key-value heads");
  expect_refused([](ModelConfig& c) { c.head_dim = 7; },
                 "head_dim: rotary embedding needs an even value, got 7");
  expect_refused([](ModelConfig& c) { c.vocab_size = 0; }, "vocabulary size");
  expect_refused([](ModelConfig& c) { c.max_positions = std::int64_t{1} << 40; }, "max_position_embeddings");
  expect_refused([](ModelConfig& c) { c.num_heads = 4096, c.head_dim = 2048; }, "width of all heads");
  expect_refused([](ModelConfig& c) { c.rms_norm_eps = 0; }, "rms_norm_eps");
  expect_refused([](ModelConfig& c) { c.rms_norm_eps = std::nan(""); }, "rms_norm_eps");
  expect_refused([](ModelConfig& c) { c.rope.theta = 0; }, "rope_theta: expected a number above 1, got 0");
  expect_refused([](ModelConfig& c) { c.sliding_window = {4}; },
                 "sliding window: has 1 entries for 2 layers");
  expect_refused([](ModelConfig& c) { c.sliding_window = {4, -1}; }, "sliding window: expected at least 0");
  expect_refused([](ModelConfig& c) { c.bos_token_id = -1; }, "bos_token_id");
  expect_refused([](ModelConfig& c) { c.eos_token_ids = {1, -2}; }, "eos_token_id");
}

TEST(ModelConfigTest, ValidateChecksWhatTheRopeTypeUses) {
  const auto status = [](const RopeConfig& rope) {
    ModelConfig config = Small();
    config.rope = rope;
    return std::string(config.Validate("c").message());
  };
  RopeConfig rope;
  rope.factor = 0.5;
  EXPECT_EQ(status(rope), "");  // the default type has no factor
  rope.type = RopeType::kLinear;
  EXPECT_THAT(status(rope), HasSubstr("rope factor"));
  rope.factor = 2;
  EXPECT_EQ(status(rope), "");
  rope.type = RopeType::kLlama3;
  EXPECT_THAT(status(rope), HasSubstr("original_max_position_embeddings"));
  rope.original_max_positions = 64;
  EXPECT_EQ(status(rope), "");
  rope.high_freq_factor = 1;
  EXPECT_THAT(status(rope), HasSubstr("high_freq_factor"));
  rope.type = RopeType::kYarn;
  EXPECT_EQ(status(rope), "");
  rope.beta_fast = 1;
  EXPECT_THAT(status(rope), HasSubstr("beta_fast"));
  rope.beta_fast = 32;
  rope.attention_factor = 0;
  EXPECT_THAT(status(rope), HasSubstr("attention_factor"));
}

TEST(ModelConfigTest, TranslatableWhereKvHaveTheSameForm) {
  const ModelConfig a = Small();
  ModelConfig b = Small();
  b.rope.theta = 500000;
  b.rope.type = RopeType::kLinear;
  b.sliding_window = {8, 8};
  b.vocab_size = 1030;
  b.intermediate_size = 320;
  b.num_heads = 4;
  b.architecture = Architecture::kMistral;
  EXPECT_TRUE(a.CheckTranslatable(b).ok());

  const auto expect_refused = [&a](const std::function<void(ModelConfig&)>& change, const std::string& what) {
    ModelConfig other = Small();
    change(other);
    const absl::Status status = a.CheckTranslatable(other);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.message(), what);
  };
  expect_refused([](ModelConfig& c) { c.num_layers = 3; }, "number of layers differs: 2 against 3");
  expect_refused([](ModelConfig& c) { c.num_kv_heads = 4; },
                 "number of key-value heads differs: 2 against 4");
  expect_refused([](ModelConfig& c) { c.head_dim = 16; }, "head_dim differs: 8 against 16");
  expect_refused([](ModelConfig& c) { c.hidden_size = 128; }, "hidden size differs: 64 against 128");
  expect_refused([](ModelConfig& c) { c.architecture = Architecture::kQwen2; },
                 "architecture differs: llama against qwen2");
}

}  // namespace
}  // namespace scd
