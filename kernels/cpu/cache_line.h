// The size of the pieces that memory is fetched in.
#ifndef SCD_KERNELS_CPU_CACHE_LINE_H_
#define SCD_KERNELS_CPU_CACHE_LINE_H_

#include <cstdint>

namespace scd::cpu {

inline constexpr std::int64_t kCacheLineBytes = 64;

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_CACHE_LINE_H_
