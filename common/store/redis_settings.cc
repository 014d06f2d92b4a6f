#include "common/store/redis_settings.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kMaxPasswordBytes = 4096;
constexpr std::size_t kMaxPrefixBytes = 128;

// All of it but a line's end.
absl::StatusOr<std::string> ReadPassword(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<char, kMaxPasswordBytes + 1> buffer;
  in.read(buffer.data(), buffer.size());
  const auto size = static_cast<std::size_t>(in.gcount());
  if (!in.is_open() || in.bad()) {
    return absl::NotFoundError(absl::StrCat(path, ": the password cannot be read"));
  }
  absl::string_view password(buffer.data(), size);
  absl::ConsumeSuffix(&password, "\n");
  absl::ConsumeSuffix(&password, "\r");
  if (password.empty() || size > kMaxPasswordBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a password has 1 to ", kMaxPasswordBytes, " bytes"));
  }
  return std::string(password);
}

}  // namespace

void ReadRedisSettings(YamlSection section, bool writes, RedisSettings* settings) {
  section.String("address", &settings->address);
  if (settings->enabled()) {
    if (const auto server = ParseRedisAddress(settings->address); !server.ok()) {
      section.Fail("address", std::string(server.status().message()));
    }
  }
  section.Int("database", &settings->database, {.min = 0, .max = 65535});
  section.String("user", &settings->user);
  section.String("password", &settings->password);
  section.String("password_file", &settings->password_file);
  if (!settings->password.empty() && !settings->password_file.empty()) {
    section.Fail("password_file", "password says it already");
  }
  if (!settings->user.empty() && settings->password.empty() && settings->password_file.empty()) {
    section.Fail("user", "needs password_file or password");
  }
  section.String("key_prefix", &settings->key_prefix);
  const std::string& prefix = settings->key_prefix;
  if (prefix.empty() || prefix.size() > kMaxPrefixBytes ||
      !std::all_of(prefix.begin(), prefix.end(), absl::ascii_isgraph)) {
    section.Fail("key_prefix", absl::StrCat("is 1 to ", kMaxPrefixBytes, " visible ASCII characters"));
  }
  section.Int("ttl_seconds", &settings->ttl_seconds, {.min = 0, .max = 3'153'600'000, .unit = "seconds"});
  section.Int("timeout_ms", &settings->timeout_ms, {.min = 1, .max = 60'000, .unit = "ms"});
  section.Int("retry_seconds", &settings->retry_seconds, {.min = 1, .max = 3600, .unit = "seconds"});
  if (writes) section.Int("queue_mib", &settings->queue_mib, {.min = 1, .max = 65536, .unit = "MiB"});
}

absl::StatusOr<RedisCodeStoreOptions> RedisOptions(const RedisSettings& settings, bool writes) {
  RedisCodeStoreOptions options;
  options.read_only = !writes;
  SCD_ASSIGN_OR_RETURN(options.server, ParseRedisAddress(settings.address));
  options.server.database = static_cast<int>(settings.database);
  options.server.user = settings.user;
  options.server.password = settings.password;
  if (!settings.password_file.empty()) {
    SCD_ASSIGN_OR_RETURN(options.server.password, ReadPassword(settings.password_file));
  }
  options.key_prefix = settings.key_prefix;
  if (settings.ttl_seconds > 0) options.ttl = absl::Seconds(settings.ttl_seconds);
  options.timeout = absl::Milliseconds(settings.timeout_ms);
  options.retry_interval = absl::Seconds(settings.retry_seconds);
  options.max_queued_bytes = settings.queue_mib << 20;
  return options;
}

}  // namespace scd
