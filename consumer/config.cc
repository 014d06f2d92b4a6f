#include "consumer/config.h"

#include "common/config/cuda_yaml.h"
#include "common/config/plan_yaml.h"
#include "common/config/transfer_modes.h"
#include "common/model/model_yaml.h"
#include "common/server/daemon_config.h"

namespace scd {
namespace {

constexpr std::int64_t kMaxTimeMs = 3'600'000;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 24;

void ReadModel(YamlSection root, ConsumerConfig& config) {
  root.String("device", &config.backend.device);
  ReadCudaOptions(root.Section("cuda"), &config.backend.cuda);
  root.Int("threads", &config.backend.num_threads, {.min = 0, .max = 1024, .unit = "threads"});
  root.Choice("math", &config.backend.math,
              {{"auto", MathMode::kAuto}, {"f32", MathMode::kF32}, {"bf16", MathMode::kBF16}});
  ReadModelSource(root, "model", &config.model, &config.backend.math);
}

void ReadProducer(YamlSection root, ConsumerConfig& config) {
  YamlSection producer = root.Section("producer");
  ReadHostPort(producer, "address", &config.producer.address);
  producer.Int("connect_timeout_ms", &config.producer.connect_timeout_ms,
               {.min = 1, .max = kMaxTimeMs, .unit = "ms"});
  producer.Int("transfer_timeout_ms", &config.producer.transfer_timeout_ms,
               {.min = 1, .max = kMaxTimeMs, .unit = "ms"});
  producer.Int("queue_frames", &config.producer.queue_frames, {.min = 1, .max = 1024, .unit = "frames"});
}

void ReadPlan(YamlSection root, ConsumerConfig& config) {
  constexpr IntRange kRank = {.min = 1, .max = 65536, .unit = "columns"};
  constexpr IntRange kNative = {.min = 0, .max = 65536, .unit = "tokens"};
  YamlSection plan = root.Section("plan");
  plan.Int("rank_k", &config.plan.rank_k, kRank);
  plan.Int("rank_v", &config.plan.rank_v, kRank);
  plan.Int("rank_h", &config.plan.rank_h, kRank);
  plan.IntsOrWord("patch_layers", "auto", &config.plan.patch_layers,
                  {.min = 0, .max = 4095, .unit = "layer"});
  plan.Int("native_head", &config.plan.native_head, kNative);
  plan.Int("native_tail", &config.plan.native_tail, kNative);
  ReadCodec(plan, "codec", &config.plan.codec);
  plan.Real("distortion", &config.plan.distortion, {.min = 0, .max = 1e6});
  ReadLayerRange(plan, "recompute_layers", &config.plan.recompute_layers);
}

void ReadCodeStore(YamlSection root, ConsumerConfig& config) {
  YamlSection redis = root.Section("code_store").Section("redis");
  ReadRedisSettings(redis, /*writes=*/false, &config.code_store.redis);
  redis.Bool("first", &config.code_store.first);
}

void ReadEngine(YamlSection root, ConsumerConfig& config) {
  YamlSection cache = root.Section("kv_cache");
  ReadKvCacheSettings(cache, &config.kv_cache.pool);
  cache.Int("swap_mib", &config.kv_cache.swap_mib, {.min = 0, .max = 1 << 24, .unit = "MiB"});
  YamlSection batch = root.Section("batch");
  batch.Int("max_sequences", &config.batch.max_sequences, {.min = 1, .max = 1024, .unit = "sequences"});
  batch.Int("prefill_chunk_tokens", &config.batch.prefill_chunk_tokens,
            {.min = 1, .max = 65536, .unit = "tokens"});
  batch.Int("max_queued_requests", &config.batch.max_queued_requests,
            {.min = 1, .max = 1 << 20, .unit = "requests"});
}

void ReadLimits(YamlSection root, ConsumerConfig& config) {
  YamlSection limits = root.Section("limits");
  limits.Int("max_tokens", &config.limits.max_tokens, {.min = 1, .max = kMaxTokens, .unit = "tokens"});
  limits.Int("default_max_tokens", &config.limits.default_max_tokens,
             {.min = 1, .max = kMaxTokens, .unit = "tokens"});
  limits.Int("max_prompt_tokens", &config.limits.max_prompt_tokens,
             {.min = 0, .max = kMaxTokens, .unit = "tokens"});
  limits.Int("max_unsent_tokens", &config.limits.max_unsent_tokens,
             {.min = 1, .max = 1 << 20, .unit = "tokens"});
  limits.Int("max_score_logits_mib", &config.limits.max_score_logits_mib,
             {.min = 1, .max = 1 << 20, .unit = "MiB"});
  if (config.limits.default_max_tokens > config.limits.max_tokens) {
    limits.Fail("default_max_tokens", "is over limits.max_tokens");
  }
}

}  // namespace

void ReadConsumerConfig(YamlSection root, ConsumerConfig* config) {
  ReadModel(root, *config);
  root.String("bundle", &config->bundle);
  ReadProducer(root, *config);
  root.Choice("policy", &config->policy,
              {{"require", TransferPolicy::kRequire},
               {"prefer", TransferPolicy::kPrefer},
               {"off", TransferPolicy::kOff}});
  root.String("mode", &config->mode);
  if (!IsModeChoice(config->mode)) root.Fail("mode", ModeNamesText());
  if (config->bundle.empty() && config->mode != kLocalMode)
    root.Fail("bundle", "is needed unless mode is local");
  ReadPlan(root, *config);
  root.Int("max_uncoded_tokens", &config->max_uncoded_tokens, {.min = 0, .max = 65536, .unit = "tokens"});
  root.Int("max_cached_plans", &config->max_cached_plans, {.min = 1, .max = 64, .unit = "plans"});
  ReadCodeStore(root, *config);
  ReadEngine(root, *config);
  ReadLimits(root, *config);
}

}  // namespace scd
