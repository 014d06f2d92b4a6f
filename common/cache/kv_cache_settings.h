// What an operator says about a pool of KV pages: the section kv_cache of both daemons.
#ifndef SCD_COMMON_CACHE_KV_CACHE_SETTINGS_H_
#define SCD_COMMON_CACHE_KV_CACHE_SETTINGS_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "common/cache/kv_layout.h"
#include "common/config/model_config.h"
#include "common/config/yaml_reader.h"

namespace scd {

// What `memory_mib: auto` takes of the memory that is free once the model is loaded.
inline constexpr double kAutoMemoryShare = 0.4;
// The same of a device's own memory, of what weights and workspaces leave: nothing but translators and tables
// of pages comes after the pages.
inline constexpr double kAutoDeviceMemoryShare = 0.85;

struct KvCacheSettings {
  std::optional<std::int64_t> memory_mib = 2048;  // K and V of all pages; absent: auto
  std::int64_t pages = 0;                         // over 0: so many exactly, whatever memory_mib says
  std::int64_t page_tokens = 32;
  DType dtype = DType::kF32;
  bool prefix_sharing = true;
};

// memory_mib, pages, page_tokens, dtype and prefix_sharing. Errors stay in the reader.
void ReadKvCacheSettings(YamlSection section, KvCacheSettings* settings);

KvLayout LayoutFor(const KvCacheSettings& settings, const ModelConfig& model);

// At least one. Where memory_mib is auto it takes a share of the device's free memory that is given or, without
// any, asks the system, whose error names the field.
absl::StatusOr<std::int64_t> NumPages(const KvCacheSettings& settings, const KvLayout& layout,
                                      std::optional<std::int64_t> free_device_bytes = std::nullopt);

}  // namespace scd

#endif  // SCD_COMMON_CACHE_KV_CACHE_SETTINGS_H_
