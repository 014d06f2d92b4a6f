// How much memory this process may still take.
#ifndef SCD_COMMON_CACHE_FREE_MEMORY_H_
#define SCD_COMMON_CACHE_FREE_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace scd {

// Bytes that the machine can give without swapping (MemAvailable), or what is left of the limit of this
// process's control group (v2) where that is less. UNAVAILABLE where the system does not say. `root`: where
// proc and sys are.
absl::StatusOr<std::int64_t> FreeMemoryBytes(const std::string& root = "/");

}  // namespace scd

#endif  // SCD_COMMON_CACHE_FREE_MEMORY_H_
