// K, V and queries as bf16 rows in shared memory, for products on tensor cores. Pages of bf16 are copied, f32
// is rounded; i8 becomes its integers, which bf16 holds exactly, and their scales are kept beside the tile.
#ifndef SCD_KERNELS_CUDA_ATTENTION_MMA_LOAD_CUH_
#define SCD_KERNELS_CUDA_ATTENTION_MMA_LOAD_CUH_

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/kv_load.cuh"

namespace scd::cuda {

inline constexpr int kEight = 8;  // bf16 numbers that are loaded at once

// Eight numbers from `first` on, which are there and aligned as eight.
__device__ inline uint4 LoadEight(const void* numbers, DType dtype, std::int64_t first) {
  if (dtype == DType::kBF16) return static_cast<const uint4*>(numbers)[first / kEight];
  const float4 low = LoadFour(numbers, dtype, first);
  const float4 high = LoadFour(numbers, dtype, first + 4);
  return make_uint4(PackBf16(low.x, low.y), PackBf16(low.z, low.w), PackBf16(high.x, high.y),
                    PackBf16(high.z, high.w));
}

// The same where they may not be aligned; those from `end` on are 0.
__device__ inline uint4 LoadUpToEight(const void* numbers, DType dtype, std::int64_t first,
                                      std::int64_t end) {
  const auto two = [&](std::int64_t i) {
    const float low = i < end ? LoadOne(numbers, dtype, i) : 0.0f;
    const float high = i + 1 < end ? LoadOne(numbers, dtype, i + 1) : 0.0f;
    return PackBf16(low, high);
  };
  return make_uint4(two(first), two(first + 2), two(first + 4), two(first + 6));
}

// All threads of a block of (kEight, rows): keys [first, first + count) of K or V into `tile` [kKeys] rows of
// `pitch` numbers, `columns` of them written and 0 beyond head_dim and count, and for i8 their scales.
template <int kKeys>
__device__ inline void LoadKeys(const KvPages& part, const AttentionLaunch& launch,
                                const SequenceRows& sequence, std::int64_t kv_head, std::int64_t first,
                                std::int64_t count, int columns, int pitch, __nv_bfloat16* tile,
                                float* scales) {
  const DType dtype = launch.pages.dtype;
  const std::int64_t head_dim = launch.head_dim;
  const bool aligned = head_dim % kEight == 0 && part.page_stride % kEight == 0 &&
                       reinterpret_cast<std::uintptr_t>(part.numbers) % 16 == 0;
  for (int key = threadIdx.y; key < kKeys; key += blockDim.y) {
    KvPlace place{0, 0.0f, false};
    if (key < count) {
      place = FindVector(part, launch.pages, sequence, kv_head, first + key, head_dim, launch.bad);
    }
    if (threadIdx.x == 0) scales[key] = place.scale;
    for (int d = threadIdx.x * kEight; d < columns; d += blockDim.x * kEight) {
      uint4 eight = make_uint4(0, 0, 0, 0);
      if (place.found && d < head_dim) {
        eight = aligned ? LoadEight(part.numbers, dtype, place.first + d)
                        : LoadUpToEight(part.numbers, dtype, place.first + d, place.first + head_dim);
      }
      *reinterpret_cast<uint4*>(tile + key * pitch + d) = eight;
    }
  }
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_ATTENTION_MMA_LOAD_CUH_
