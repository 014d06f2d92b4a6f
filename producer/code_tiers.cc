#include "producer/code_tiers.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/store/block_folder.h"
#include "common/store/disk_code_store.h"
#include "common/store/memory_code_store.h"
#include "common/store/redis_code_store.h"
#include "common/store/tiered_code_store.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

absl::Status AtField(const char* field, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("code_store.", field, ": ", status.message()));
}

absl::StatusOr<std::unique_ptr<CodeStore>> OpenDisk(const DiskStoreConfig& config, Log& log) {
  DiskCodeStoreOptions options;
  options.path = config.path;
  options.capacity_bytes = config.capacity_mib << 20;
  if (config.ttl_seconds > 0) options.ttl = absl::Seconds(config.ttl_seconds);
  options.warn = [&log](const std::string& line) { log.Warning(line); };
  absl::StatusOr<std::unique_ptr<DiskCodeStore>> store = DiskCodeStore::Create(std::move(options));
  if (!store.ok()) return AtField("disk.path", store.status());
  return *std::move(store);
}

absl::StatusOr<std::unique_ptr<CodeStore>> OpenRedis(const RedisSettings& settings, Log& log,
                                                     std::vector<CodeSource> sources) {
  absl::StatusOr<RedisCodeStoreOptions> options = RedisOptions(settings, /*writes=*/true);
  if (!options.ok()) return AtField("redis", options.status());
  options->sources = std::move(sources);
  options->warn = [&log](const std::string& line) { log.Warning(line); };
  return RedisCodeStore::Create(*std::move(options));
}

std::string DescribeTier(const CodeStoreStats& tier) {
  const std::int64_t capacity_mib = tier.capacity_bytes >> 20;
  if (tier.tier == "memory") return absl::StrCat("in memory (", capacity_mib, " MiB)");
  std::string what =
      absl::StrCat(tier.tier == "disk" ? "on disk" : absl::StrCat("in ", tier.tier), " (", tier.place);
  if (tier.capacity_bytes > 0) {
    absl::StrAppend(&what, ", ", tier.num_blocks, " blocks, ", tier.size_bytes >> 20, " of ", capacity_mib,
                    " MiB");
  }
  return what + ")";
}

}  // namespace

absl::Status CheckCodeStore(const CodeStoreConfig& config) {
  if (config.redis.enabled()) {
    const absl::Status status = RedisOptions(config.redis, /*writes=*/true).status();
    if (!status.ok()) return AtField("redis", status);
  }
  if (config.disk.path.empty()) return absl::OkStatus();
  return AtField("disk.path", BlockFolder::Check(config.disk.path));
}

absl::StatusOr<std::unique_ptr<CodeStore>> OpenCodeStore(const CodeStoreConfig& config, Log& log,
                                                         std::vector<CodeSource> sources) {
  std::vector<std::unique_ptr<CodeStore>> tiers;
  if (config.capacity_mib > 0) tiers.push_back(std::make_unique<MemoryCodeStore>(config.capacity_mib << 20));
  if (!config.disk.path.empty()) {
    SCD_ASSIGN_OR_RETURN(std::unique_ptr<CodeStore> disk, OpenDisk(config.disk, log));
    tiers.push_back(std::move(disk));
  }
  if (config.redis.enabled()) {
    SCD_ASSIGN_OR_RETURN(std::unique_ptr<CodeStore> redis, OpenRedis(config.redis, log, std::move(sources)));
    tiers.push_back(std::move(redis));
  }
  if (tiers.empty()) return nullptr;
  if (tiers.size() == 1) return std::move(tiers[0]);
  return std::make_unique<TieredCodeStore>(std::move(tiers));
}

void AddCodeStoreMetrics(MetricsRegistry& metrics, const CodeStore& store) {
  const std::vector<CodeStoreStats> tiers = store.stats();
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const auto read = [&store, i](std::int64_t CodeStoreStats::*field) {
      return [&store, i, field] { return static_cast<double>(store.stats()[i].*field); };
    };
    const MetricsRegistry::Labels tier = {{"tier", tiers[i].tier}};
    const auto with = [&tier](const char* label, const char* value) {
      MetricsRegistry::Labels labels = tier;
      labels[label] = value;
      return labels;
    };
    metrics.AddGauge("scd_code_store_bytes", "Bytes of codes that a tier of the store holds.",
                     read(&CodeStoreStats::size_bytes), tier);
    metrics.AddGauge("scd_code_store_capacity_bytes", "Bytes that a tier may hold; 0: no bound of its own.",
                     read(&CodeStoreStats::capacity_bytes), tier);
    metrics.AddGauge("scd_code_store_blocks", "Blocks of codes that a tier of the store holds.",
                     read(&CodeStoreStats::num_blocks), tier);
    const char* const lookups = "Blocks that a tier was asked for, by whether it had them.";
    metrics.AddCounter("scd_code_store_lookups_total", lookups, read(&CodeStoreStats::hits),
                       with("result", "hit"));
    metrics.AddCounter("scd_code_store_lookups_total", lookups, read(&CodeStoreStats::misses),
                       with("result", "miss"));
    const char* const dropped = "Blocks that a tier gave up.";
    metrics.AddCounter("scd_code_store_dropped_total", dropped, read(&CodeStoreStats::evicted),
                       with("reason", "room"));
    metrics.AddCounter("scd_code_store_dropped_total", dropped, read(&CodeStoreStats::dropped_expired),
                       with("reason", "expired"));
    metrics.AddCounter("scd_code_store_dropped_total", dropped, read(&CodeStoreStats::dropped_corrupt),
                       with("reason", "corrupt"));
    const char* const failures = "Blocks that a tier could not read or write.";
    metrics.AddCounter("scd_code_store_failures_total", failures, read(&CodeStoreStats::read_failures),
                       with("reason", "read"));
    metrics.AddCounter("scd_code_store_failures_total", failures, read(&CodeStoreStats::write_failures),
                       with("reason", "write"));
    metrics.AddCounter("scd_code_store_failures_total", failures, read(&CodeStoreStats::queue_drops),
                       with("reason", "queue_full"));
  }
}

std::string DescribeCodeStore(const CodeStore* store) {
  if (store == nullptr) return "no code store";
  std::string what = "codes ";
  const std::vector<CodeStoreStats> tiers = store->stats();
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    if (i > 0) absl::StrAppend(&what, i + 1 < tiers.size() ? ", " : " and ");
    absl::StrAppend(&what, DescribeTier(tiers[i]));
  }
  return what;
}

}  // namespace scd
