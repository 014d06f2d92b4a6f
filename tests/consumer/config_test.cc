#include "consumer/config.h"

#include <string>
#include <vector>

#include "common/server/daemon_config.h"
#include "gtest/gtest.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

absl::StatusOr<ConsumerConfig> Parse(const std::string& text) {
  const auto document = YamlDocument::Parse(text, "consumer.yaml");
  if (!document.ok()) return document.status();
  YamlReader reader(*document);
  ConsumerConfig config;
  ReadConsumerConfig(reader.root(), &config);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return config;
}

constexpr char kLeast[] = "model: {path: m}\nbundle: b\n";

TEST(ConsumerConfigTest, DefaultsWithTheLeast) {
  const auto config = Parse(kLeast);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.path, "m");
  EXPECT_EQ(config->policy, TransferPolicy::kPrefer);
  EXPECT_EQ(config->mode, "auto");
  EXPECT_EQ(config->max_uncoded_tokens, 128);
  EXPECT_FALSE(config->plan.patch_layers.has_value());
  EXPECT_FALSE(config->plan.codec.has_value());
  EXPECT_FALSE(config->plan.distortion.has_value());
}

TEST(ConsumerConfigTest, EveryFieldIsRead) {
  const auto config = Parse(R"(
model: {path: m, adapter: a, config: c}
device: reference
threads: 3
math: f32
bundle: b
producer: {address: "h:1", connect_timeout_ms: 10, transfer_timeout_ms: 20, queue_frames: 30}
policy: require
mode: local
plan: {rank_k: 1, rank_v: 2, rank_h: 3, patch_layers: [4, 5], native_head: 6, native_tail: 7, codec: f32,
       distortion: 0.5}
max_uncoded_tokens: 8
max_cached_plans: 9
kv_cache: {pages: 10, page_tokens: 11, dtype: bf16, prefix_sharing: false, swap_mib: 12}
batch: {max_sequences: 12, prefill_chunk_tokens: 13, max_queued_requests: 14}
limits: {default_max_tokens: 15, max_tokens: 16, max_prompt_tokens: 17, max_unsent_tokens: 18, max_score_logits_mib: 19}
)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.adapter, "a");
  EXPECT_EQ(config->model.config, "c");
  EXPECT_EQ(config->backend.device, "reference");
  EXPECT_EQ(config->backend.num_threads, 3);
  EXPECT_EQ(config->backend.math, MathMode::kF32);
  EXPECT_EQ(config->producer.address.ToString(), "h:1");
  EXPECT_EQ(config->producer.connect_timeout_ms, 10);
  EXPECT_EQ(config->producer.transfer_timeout_ms, 20);
  EXPECT_EQ(config->producer.queue_frames, 30);
  EXPECT_EQ(config->policy, TransferPolicy::kRequire);
  EXPECT_EQ(config->mode, "local");
  EXPECT_EQ(config->plan.rank_k, 1);
  EXPECT_EQ(config->plan.rank_v, 2);
  EXPECT_EQ(config->plan.rank_h, 3);
  EXPECT_EQ(config->plan.patch_layers, (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(config->plan.native_head, 6);
  EXPECT_EQ(config->plan.native_tail, 7);
  EXPECT_EQ(config->plan.codec, Codec::kF32);
  EXPECT_EQ(config->plan.distortion, 0.5);
  EXPECT_EQ(config->max_uncoded_tokens, 8);
  EXPECT_EQ(config->max_cached_plans, 9);
  EXPECT_EQ(config->kv_cache.pool.pages, 10);
  EXPECT_EQ(config->kv_cache.pool.page_tokens, 11);
  EXPECT_EQ(config->kv_cache.pool.dtype, DType::kBF16);
  EXPECT_FALSE(config->kv_cache.pool.prefix_sharing);
  EXPECT_EQ(config->kv_cache.swap_mib, 12);
  EXPECT_EQ(config->batch.max_sequences, 12);
  EXPECT_EQ(config->batch.prefill_chunk_tokens, 13);
  EXPECT_EQ(config->batch.max_queued_requests, 14);
  EXPECT_EQ(config->limits.default_max_tokens, 15);
  EXPECT_EQ(config->limits.max_tokens, 16);
  EXPECT_EQ(config->limits.max_prompt_tokens, 17);
  EXPECT_EQ(config->limits.max_unsent_tokens, 18);
  EXPECT_EQ(config->limits.max_score_logits_mib, 19);
}

TEST(ConsumerConfigTest, WrongFieldsAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"bundle: b\n", "model.path"},
      {"model: {path: m}\n", "bundle"},
      {std::string(kLeast) + "mode: cooked\n", "expected one of auto, scd, reuse, fused, local"},
      {std::string(kLeast) + "policy: maybe\n", "policy"},
      {std::string(kLeast) + "producer: {address: nowhere}\n", "producer.address"},
      {std::string(kLeast) + "producer: {transfer_timeout_ms: 0}\n", "producer.transfer_timeout_ms"},
      {std::string(kLeast) + "plan: {patch_layers: some}\n", "plan.patch_layers"},
      {std::string(kLeast) + "plan: {rank_k: -3}\n", "plan.rank_k"},
      {std::string(kLeast) + "plan: {codec: int3}\n",
       "plan.codec: \"int3\" is none of bf16, f32, int8, int4, entropy"},
      {std::string(kLeast) + "plan: {distortion: -0.5}\n", "plan.distortion"},
      {std::string(kLeast) + "plan: {distortion: fine}\n", "plan.distortion"},
      {std::string(kLeast) + "plan: {recompute_layers: [3]}\n", "plan.recompute_layers"},
      {std::string(kLeast) + "plan: {recompute_layers: [4, 3]}\n", "plan.recompute_layers"},
      {std::string(kLeast) + "plan: {rank_q: 3}\n", "rank_k"},
      {std::string(kLeast) + "kv_cache: {pages: -3}\n", "kv_cache.pages"},
      {std::string(kLeast) + "limits: {max_tokens: 5, default_max_tokens: 6}\n", "limits.default_max_tokens"},
      {std::string(kLeast) + "polcy: off\n", "policy"},
  };
  for (const auto& [text, expected] : cases) {
    const auto config = Parse(text);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(config.status().message().find(expected), std::string::npos) << config.status();
    EXPECT_NE(config.status().message().find("consumer.yaml"), std::string::npos) << config.status();
  }
}

TEST(ConsumerConfigTest, LocalNeedsNoBundle) {
  EXPECT_TRUE(Parse("model: {path: m}\nmode: local\n").ok());
}

// The shipped file is read whole, and where it shows defaults they are the program's.
TEST(ConsumerConfigTest, ShippedFileShowsTheDefaults) {
  const auto document = YamlDocument::Load(testing::TestDataPath("../../configs/consumer.yaml"));
  ASSERT_TRUE(document.ok()) << document.status();
  YamlReader reader(*document);
  ConsumerConfig shipped;
  DaemonConfig daemon;
  daemon.grpc.listen = {"127.0.0.1", 7071};
  ReadDaemonConfig(reader.root(), &daemon);
  ReadConsumerConfig(reader.root(), &shipped);
  ASSERT_TRUE(reader.Finish().ok()) << reader.Finish();
  const auto least = Parse(kLeast);
  ASSERT_TRUE(least.ok());
  EXPECT_EQ(shipped.backend.device, least->backend.device);
  EXPECT_EQ(shipped.backend.num_threads, least->backend.num_threads);
  EXPECT_EQ(shipped.producer.address.ToString(), least->producer.address.ToString());
  EXPECT_EQ(shipped.producer.connect_timeout_ms, least->producer.connect_timeout_ms);
  EXPECT_EQ(shipped.producer.transfer_timeout_ms, least->producer.transfer_timeout_ms);
  EXPECT_EQ(shipped.producer.queue_frames, least->producer.queue_frames);
  EXPECT_EQ(shipped.policy, least->policy);
  EXPECT_EQ(shipped.mode, least->mode);
  EXPECT_EQ(shipped.max_uncoded_tokens, least->max_uncoded_tokens);
  EXPECT_EQ(shipped.max_cached_plans, least->max_cached_plans);
  EXPECT_EQ(shipped.plan.codec, least->plan.codec);
  EXPECT_EQ(shipped.kv_cache.pool.memory_mib, least->kv_cache.pool.memory_mib);
  EXPECT_EQ(shipped.kv_cache.pool.page_tokens, least->kv_cache.pool.page_tokens);
  EXPECT_EQ(shipped.kv_cache.pool.dtype, least->kv_cache.pool.dtype);
  EXPECT_EQ(shipped.kv_cache.pool.prefix_sharing, least->kv_cache.pool.prefix_sharing);
  EXPECT_EQ(shipped.kv_cache.swap_mib, least->kv_cache.swap_mib);
  EXPECT_EQ(shipped.batch.max_sequences, least->batch.max_sequences);
  EXPECT_EQ(shipped.batch.prefill_chunk_tokens, least->batch.prefill_chunk_tokens);
  EXPECT_EQ(shipped.batch.max_queued_requests, least->batch.max_queued_requests);
  EXPECT_EQ(shipped.limits.default_max_tokens, least->limits.default_max_tokens);
  EXPECT_EQ(shipped.limits.max_tokens, least->limits.max_tokens);
  EXPECT_EQ(shipped.limits.max_unsent_tokens, least->limits.max_unsent_tokens);
  EXPECT_EQ(shipped.limits.max_score_logits_mib, least->limits.max_score_logits_mib);
}

}  // namespace
}  // namespace scd
