#include "common/cache/kv_cache_settings.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/cache/free_memory.h"

namespace scd {

void ReadKvCacheSettings(YamlSection section, KvCacheSettings* settings) {
  if (section.IsWord("memory_mib", "auto")) {
    settings->memory_mib.reset();
  } else {
    section.Int("memory_mib", &settings->memory_mib, {.min = 1, .max = 1 << 24, .unit = "MiB"});
  }
  section.Int("pages", &settings->pages, {.min = 0, .max = 1 << 24, .unit = "pages"});
  section.Int("page_tokens", &settings->page_tokens, {.min = 1, .max = 4096, .unit = "tokens"});
  section.Choice("dtype", &settings->dtype,
                 {{"f32", DType::kF32}, {"bf16", DType::kBF16}, {"int8", DType::kI8}});
  section.Bool("prefix_sharing", &settings->prefix_sharing);
}

KvLayout LayoutFor(const KvCacheSettings& settings, const ModelConfig& model) {
  return KvLayout{.num_layers = model.num_layers,
                  .num_kv_heads = model.num_kv_heads,
                  .head_dim = model.head_dim,
                  .page_tokens = settings.page_tokens,
                  .dtype = settings.dtype};
}

absl::StatusOr<std::int64_t> NumPages(const KvCacheSettings& settings, const KvLayout& layout,
                                      std::optional<std::int64_t> free_device_bytes) {
  if (settings.pages > 0) return settings.pages;
  std::int64_t bytes = 0;
  if (settings.memory_mib) {
    bytes = *settings.memory_mib << 20;
  } else if (free_device_bytes) {
    bytes = static_cast<std::int64_t>(static_cast<double>(*free_device_bytes) * kAutoDeviceMemoryShare);
  } else {
    const absl::StatusOr<std::int64_t> free = FreeMemoryBytes();
    if (!free.ok()) {
      return absl::Status(free.status().code(),
                          absl::StrCat("kv_cache.memory_mib: auto: ", free.status().message()));
    }
    bytes = static_cast<std::int64_t>(static_cast<double>(*free) * kAutoMemoryShare);
  }
  return std::clamp<std::int64_t>(bytes / layout.page_bytes(), 1, std::numeric_limits<std::int32_t>::max());
}

}  // namespace scd
