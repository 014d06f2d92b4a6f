// Sums and maxima over neighbouring threads of a warp.
#ifndef SCD_KERNELS_CUDA_WARP_CUH_
#define SCD_KERNELS_CUDA_WARP_CUH_

#include <cuda_runtime.h>

namespace scd::cuda {

inline constexpr int kWarpThreads = 32;
inline constexpr unsigned int kWholeWarp = 0xffffffffu;

// Over each kThreads (a power of two up to 32) neighbours; every one of them has the result. All threads of
// the warp must call it.
template <int kThreads>
__device__ inline float NeighbourSum(float value) {
#pragma unroll
  for (int step = kThreads / 2; step > 0; step /= 2) value += __shfl_xor_sync(kWholeWarp, value, step);
  return value;
}

template <int kThreads>
__device__ inline float NeighbourMax(float value) {
#pragma unroll
  for (int step = kThreads / 2; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, step));
  }
  return value;
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_WARP_CUH_
