#include "producer/config.h"

#include "common/config/cuda_yaml.h"
#include "common/model/model_yaml.h"

namespace scd {

void ReadProducerConfig(YamlSection root, ProducerConfig* config) {
  root.String("device", &config->backend.device);
  ReadCudaOptions(root.Section("cuda"), &config->backend.cuda);
  root.Int("threads", &config->backend.num_threads, {.min = 0, .max = 1024, .unit = "threads"});
  root.Choice("math", &config->backend.math,
              {{"auto", MathMode::kAuto}, {"f32", MathMode::kF32}, {"bf16", MathMode::kBF16}});
  ReadModelSource(root, "model", &config->model, &config->backend.math);

  root.Strings("bundles", &config->bundles, {.min = 1, .max = 256});
  if (config->bundles.empty()) root.Fail("bundles", "lists no bundle: a producer serves at least one");

  constexpr std::int64_t kMaxTokens = std::int64_t{1} << 24;
  YamlSection prefill = root.Section("prefill");
  prefill.Int("max_prompt_tokens", &config->prefill.max_prompt_tokens,
              {.min = 1, .max = kMaxTokens, .unit = "tokens"});
  prefill.Int("chunk_tokens", &config->prefill.chunk_tokens, {.min = 1, .max = 65536, .unit = "tokens"});
  prefill.Int("max_queued_requests", &config->prefill.max_queued_requests,
              {.min = 0, .max = 65536, .unit = "requests"});
  prefill.Int("max_cached_plans", &config->prefill.max_cached_plans, {.min = 1, .max = 256, .unit = "plans"});

  ReadKvCacheSettings(root.Section("kv_cache"), &config->kv_cache);

  YamlSection stream = root.Section("stream");
  stream.Int("queue_frames", &config->stream.queue_frames, {.min = 1, .max = 65536, .unit = "frames"});
  stream.Int("stall_timeout_seconds", &config->stream.stall_timeout_seconds,
             {.min = 1, .max = 3600, .unit = "seconds"});

  stream.Int("max_streams", &config->stream.max_streams, {.min = 1, .max = 65536, .unit = "streams"});

  YamlSection store = root.Section("code_store");
  store.Int("capacity_mib", &config->code_store.capacity_mib, {.min = 0, .max = 1 << 24, .unit = "MiB"});
  YamlSection disk = store.Section("disk");
  disk.String("path", &config->code_store.disk.path);
  disk.Int("capacity_mib", &config->code_store.disk.capacity_mib, {.min = 1, .max = 1 << 30, .unit = "MiB"});
  disk.Int("ttl_seconds", &config->code_store.disk.ttl_seconds,
           {.min = 0, .max = 3'153'600'000, .unit = "seconds"});
  ReadRedisSettings(store.Section("redis"), /*writes=*/true, &config->code_store.redis);
}

}  // namespace scd
