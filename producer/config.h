// What the operator of scd-producer can set besides the sections that all daemons share
// (configs/producer.yaml explains each field).
#ifndef SCD_PRODUCER_CONFIG_H_
#define SCD_PRODUCER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/cache/kv_cache_settings.h"
#include "common/config/yaml_reader.h"
#include "common/model/model_source.h"
#include "common/store/redis_settings.h"
#include "kernels/backend_factory.h"

namespace scd {

struct PrefillConfig {
  std::int64_t max_prompt_tokens = 8192;  // longer prompts are refused
  std::int64_t chunk_tokens = 512;  // rows of one forward pass; frames leave after each layer of each chunk
  std::int64_t max_queued_requests = 64;  // waiting for the engine; beyond: RESOURCE_EXHAUSTED
  std::int64_t max_cached_plans = 8;      // pairs of bundle and plan whose encoders are kept ready
};

struct StreamConfig {
  std::int64_t queue_frames = 64;           // frames that wait for a reader before its prefill pauses
  std::int64_t stall_timeout_seconds = 30;  // a reader that takes nothing for so long is ended
  std::int64_t max_streams = 256;           // at one time, waiting ones included; beyond: RESOURCE_EXHAUSTED
};

struct DiskStoreConfig {
  std::string path;  // of the folder; empty: codes are not kept on disk
  std::int64_t capacity_mib = 4096;
  std::int64_t ttl_seconds = 604800;  // 0: blocks do not expire
};

struct CodeStoreConfig {
  std::int64_t capacity_mib = 256;  // in memory; 0: none there
  DiskStoreConfig disk;
  RedisSettings redis = {};
};

struct ProducerConfig {
  ModelSource model = {.path = "", .adapter = "", .config = "", .weights = WeightsFormat::kAuto};
  BackendOptions backend{.cuda = {.memory_mib = std::nullopt}};
  std::vector<std::string> bundles;  // folders
  PrefillConfig prefill;
  KvCacheSettings kv_cache{.memory_mib = 512};
  StreamConfig stream;
  CodeStoreConfig code_store;
};

// Errors stay in the reader.
void ReadProducerConfig(YamlSection root, ProducerConfig* config);

}  // namespace scd

#endif  // SCD_PRODUCER_CONFIG_H_
