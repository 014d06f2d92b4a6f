// The section `redis` of a daemon's code_store: where the shared store is, and how long it may take
// (configs/producer.yaml explains each field).
#ifndef SCD_COMMON_STORE_REDIS_SETTINGS_H_
#define SCD_COMMON_STORE_REDIS_SETTINGS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/yaml_reader.h"
#include "common/store/redis_code_store.h"

namespace scd {

struct RedisSettings {
  std::string address;  // empty: no shared store
  std::int64_t database = 0;
  std::string user;
  std::string password;
  std::string password_file;
  std::string key_prefix = "scd:1:";
  std::int64_t ttl_seconds = 604'800;  // 0: blocks do not expire
  std::int64_t timeout_ms = 500;
  std::int64_t retry_seconds = 5;
  std::int64_t queue_mib = 64;  // of those that write

  bool enabled() const { return !address.empty(); }
};

// `writes`: blocks are written too, not only read. Errors stay in the reader.
void ReadRedisSettings(YamlSection section, bool writes, RedisSettings* settings);

// Settings that are enabled, as options of a store; reads the password's file. Errors name the file.
absl::StatusOr<RedisCodeStoreOptions> RedisOptions(const RedisSettings& settings, bool writes);

}  // namespace scd

#endif  // SCD_COMMON_STORE_REDIS_SETTINGS_H_
