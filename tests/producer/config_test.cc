#include "producer/config.h"

#include <string>
#include <vector>

#include "common/config/yaml_document.h"
#include "common/server/daemon_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "producer/producer_daemon.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kNeeded[] = "model: {path: m}\nbundles: [b]\n";

absl::Status Read(const absl::StatusOr<YamlDocument>& document, ProducerConfig* config,
                  DaemonConfig* daemon) {
  if (!document.ok()) return document.status();
  YamlReader reader(*document);
  ReadDaemonConfig(reader.root(), daemon);
  ReadProducerConfig(reader.root(), config);
  return reader.Finish();
}

std::string ReadError(const std::string& text, const std::vector<std::string>& overrides = {}) {
  ProducerConfig config;
  DaemonConfig daemon;
  return std::string(Read(YamlDocument::Parse(text, "f.yaml", overrides), &config, &daemon).message());
}

TEST(ProducerConfigTest, DefaultsNeedAModelAndABundle) {
  ProducerConfig config;
  DaemonConfig daemon;
  ASSERT_TRUE(Read(YamlDocument::Parse(kNeeded, "f.yaml"), &config, &daemon).ok());
  EXPECT_EQ(config.model.path, "m");
  EXPECT_THAT(config.bundles, ElementsAre("b"));
  EXPECT_EQ(config.prefill.chunk_tokens, 512);
  EXPECT_THAT(ReadError("bundles: [b]\n"), HasSubstr("model.path: is missing"));
  EXPECT_THAT(ReadError("model: {path: m}\n"), HasSubstr("bundles: lists no bundle"));
  EXPECT_THAT(ReadError("model: {path: m}\nbundles: []\n"),
              HasSubstr("bundles: has 0 entries; allowed: 1 to 256"));
}

TEST(ProducerConfigTest, TheShippedFileHoldsTheDefaults) {
  const std::string path = testing::TestDataPath("../../configs/producer.yaml");
  ProducerConfig config;
  DaemonConfig daemon;
  daemon.metrics_listen.reset();
  const absl::Status status = Read(YamlDocument::Load(path), &config, &daemon);
  ASSERT_TRUE(status.ok()) << status;
  const ProducerConfig defaults;
  EXPECT_EQ(config.backend.device, defaults.backend.device);
  EXPECT_EQ(config.backend.num_threads, defaults.backend.num_threads);
  EXPECT_EQ(config.backend.math, defaults.backend.math);
  EXPECT_EQ(config.model.adapter, defaults.model.adapter);
  EXPECT_EQ(config.model.config, defaults.model.config);
  EXPECT_EQ(config.prefill.max_prompt_tokens, defaults.prefill.max_prompt_tokens);
  EXPECT_EQ(config.prefill.chunk_tokens, defaults.prefill.chunk_tokens);
  EXPECT_EQ(config.model.weights, defaults.model.weights);
  EXPECT_EQ(config.kv_cache.memory_mib, defaults.kv_cache.memory_mib);
  EXPECT_EQ(config.kv_cache.pages, defaults.kv_cache.pages);
  EXPECT_EQ(config.kv_cache.page_tokens, defaults.kv_cache.page_tokens);
  EXPECT_EQ(config.kv_cache.dtype, defaults.kv_cache.dtype);
  EXPECT_EQ(config.kv_cache.prefix_sharing, defaults.kv_cache.prefix_sharing);
  EXPECT_EQ(config.prefill.max_queued_requests, defaults.prefill.max_queued_requests);
  EXPECT_EQ(config.prefill.max_cached_plans, defaults.prefill.max_cached_plans);
  EXPECT_EQ(config.stream.queue_frames, defaults.stream.queue_frames);
  EXPECT_EQ(config.stream.stall_timeout_seconds, defaults.stream.stall_timeout_seconds);
  EXPECT_EQ(config.code_store.capacity_mib, defaults.code_store.capacity_mib);
  EXPECT_EQ(config.code_store.disk.path, defaults.code_store.disk.path);
  EXPECT_EQ(config.code_store.disk.capacity_mib, defaults.code_store.disk.capacity_mib);
  EXPECT_EQ(config.code_store.disk.ttl_seconds, defaults.code_store.disk.ttl_seconds);
  EXPECT_EQ(daemon.grpc.listen.ToString(), "127.0.0.1:7070");
  EXPECT_EQ(daemon.metrics_listen->ToString(), "127.0.0.1:9470");
  EXPECT_EQ(daemon.shutdown_grace_seconds, DaemonConfig().shutdown_grace_seconds);
  EXPECT_EQ(config.stream.max_streams, defaults.stream.max_streams);
  EXPECT_EQ(daemon.grpc.max_message_bytes, ProducerDaemon().default_config().grpc.max_message_bytes);
  EXPECT_EQ(daemon.grpc.keepalive_seconds, DaemonConfig().grpc.keepalive_seconds);
  EXPECT_EQ(daemon.log_level, DaemonConfig().log_level);
}

TEST(ProducerConfigTest, EveryNumberHasItsRange) {
  struct Case {
    const char* key;
    const char* below;
    const char* above;
    const char* allowed;
  };
  const std::vector<Case> cases = {
      {"threads", "-1", "1025", "0 to 1024 threads"},
      {"prefill.max_prompt_tokens", "0", "16777217", "1 to 16777216 tokens"},
      {"prefill.chunk_tokens", "0", "65537", "1 to 65536 tokens"},
      {"kv_cache.memory_mib", "0", "16777217", "1 to 16777216 MiB"},
      {"kv_cache.page_tokens", "0", "4097", "1 to 4096 tokens"},
      {"prefill.max_queued_requests", "-1", "65537", "0 to 65536 requests"},
      {"prefill.max_cached_plans", "0", "257", "1 to 256 plans"},
      {"stream.queue_frames", "0", "65537", "1 to 65536 frames"},
      {"stream.stall_timeout_seconds", "0", "3601", "1 to 3600 seconds"},
      {"stream.max_streams", "0", "65537", "1 to 65536 streams"},
      {"code_store.capacity_mib", "-1", "16777217", "0 to 16777216 MiB"},
      {"code_store.disk.capacity_mib", "0", "1073741825", "1 to 1073741824 MiB"},
      {"code_store.disk.ttl_seconds", "-1", "3153600001", "0 to 3153600000 seconds"},
  };
  for (const Case& c : cases) {
    for (const char* value : {c.below, c.above}) {
      const std::string error = ReadError(kNeeded, {std::string(c.key) + "=" + value});
      EXPECT_THAT(error,
                  HasSubstr(std::string(c.key) + ": " + value + " is out of range; allowed: " + c.allowed));
    }
    EXPECT_THAT(ReadError(kNeeded, {std::string(c.key) + "=x"}), HasSubstr("expected a whole number"));
  }
}

TEST(ProducerConfigTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(ReadError(kNeeded, {"math=int8"}), HasSubstr("math: \"int8\" is not one of: auto, f32, bf16"));
  EXPECT_THAT(ReadError(kNeeded, {"prefil.chunk_tokens=1"}), HasSubstr("did you mean prefill?"));
  EXPECT_THAT(ReadError(kNeeded, {"prefill.chunks=1"}), HasSubstr("is not a known key"));
  EXPECT_THAT(ReadError(kNeeded, {"chunk_tokens=1"}), HasSubstr("did you mean prefill.chunk_tokens?"));
  EXPECT_THAT(ReadError(kNeeded, {"model=x"}), HasSubstr("model: expected a section"));
  EXPECT_THAT(ReadError(kNeeded, {"bundles=x"}), HasSubstr("bundles: expected a list"));
}

TEST(ProducerConfigTest, WeightsAndMathAgree) {
  const auto math = [](const std::vector<std::string>& overrides) {
    ProducerConfig config;
    DaemonConfig daemon;
    const absl::Status status = Read(YamlDocument::Parse(kNeeded, "f.yaml", overrides), &config, &daemon);
    EXPECT_TRUE(status.ok()) << status;
    return config.backend.math;
  };
  EXPECT_EQ(math({}), MathMode::kAuto);
  EXPECT_EQ(math({"model.weights=f32"}), MathMode::kF32);
  EXPECT_EQ(math({"model.weights=bf16"}), MathMode::kBF16);
  EXPECT_EQ(math({"model.weights=int8", "math=f32"}), MathMode::kF32);
  EXPECT_THAT(ReadError(kNeeded, {"model.weights=bf16", "math=f32"}),
              HasSubstr("model.weights: is bf16, but math is f32"));
  EXPECT_THAT(ReadError(kNeeded, {"model.weights=f32", "math=bf16"}),
              HasSubstr("model.weights: is f32, but math is bf16"));
  EXPECT_THAT(ReadError(kNeeded, {"model.weights=int2"}), HasSubstr("is not one of"));
}

}  // namespace
}  // namespace scd
