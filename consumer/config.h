// What the operator of scd-consumer can set besides the sections that all daemons share
// (configs/consumer.yaml explains each field).
#ifndef SCD_CONSUMER_CONFIG_H_
#define SCD_CONSUMER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/cache/kv_cache_settings.h"
#include "common/config/layer_plan.h"
#include "common/config/policy.h"
#include "common/config/yaml_reader.h"
#include "common/model/model_source.h"
#include "common/server/listen_address.h"
#include "common/store/redis_settings.h"
#include "kernels/backend_factory.h"

namespace scd {

struct ProducerPeerConfig {
  HostPort address{"127.0.0.1", 7070};
  std::int64_t connect_timeout_ms = 2000;  // connection and handshake
  std::int64_t transfer_timeout_ms =
      30000;                      // a whole transfer, connecting included: the policy's time budget
  std::int64_t queue_frames = 8;  // frames of one transfer that wait for rebuilding; then reading stops
};

// Codes that producers share, read where no producer serves.
struct SharedStoreConfig {
  RedisSettings redis;
  bool first = false;  // before the producer is asked
};

struct KvCacheConfig {
  KvCacheSettings pool;
  // Host memory for requests that had to give their pages up; absent: as much as the pool has.
  std::optional<std::int64_t> swap_mib;
};

struct BatchConfig {
  std::int64_t max_sequences = 16;          // decoded together
  std::int64_t prefill_chunk_tokens = 256;  // native prompt positions computed in one step
  std::int64_t max_queued_requests = 64;    // beyond: RESOURCE_EXHAUSTED
};

struct LimitsConfig {
  std::int64_t default_max_tokens = 256;
  std::int64_t max_tokens = 4096;
  std::int64_t max_prompt_tokens = 0;  // 0: what the model's positions and the KV cache allow
  std::int64_t max_unsent_tokens =
      1024;  // of a client that reads slower than tokens are made; then it is ended
  std::int64_t max_score_logits_mib = 512;  // logits that all Score requests may keep together
};

struct ConsumerConfig {
  ModelSource model = {.path = "", .adapter = "", .config = "", .weights = WeightsFormat::kAuto};
  BackendOptions backend{.cuda = {.memory_mib = std::nullopt}};
  std::string bundle;  // empty: only mode local
  ProducerPeerConfig producer;
  TransferPolicy policy = TransferPolicy::kPrefer;
  std::string mode = "auto";
  PlanRequest plan;
  std::int64_t max_uncoded_tokens = 128;
  std::int64_t max_cached_plans = 4;  // plans whose decoders are kept ready
  SharedStoreConfig code_store;
  KvCacheConfig kv_cache;
  BatchConfig batch;
  LimitsConfig limits;
};

// Errors stay in the reader.
void ReadConsumerConfig(YamlSection root, ConsumerConfig* config);

}  // namespace scd

#endif  // SCD_CONSUMER_CONFIG_H_
