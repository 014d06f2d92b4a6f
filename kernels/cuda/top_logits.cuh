// The k largest logits of a row, and the sums of its softmax, by one block.
//
// Each thread looks for the best of its own logits. The k-th best of these is no better than the k-th best of
// all, so that what is worse cannot be among them: the few that are left are sorted. Should they be more than
// there is room for, the best are looked for one after the other.
//
// A logit and its id are one 64-bit key: larger is better, and of equal logits the one of the lower id.
#ifndef SCD_KERNELS_CUDA_TOP_LOGITS_CUH_
#define SCD_KERNELS_CUDA_TOP_LOGITS_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/codes.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/warp.cuh"

namespace scd::cuda {

inline constexpr int kTopThreads = 512;  // a power of two, more than kMaxTopLogits
inline constexpr int kTopRoom = 4096;    // keys that are sorted, a power of two

using LogitKey = unsigned long long;

inline std::size_t TopLogitsBytes() {
  return kTopRoom * sizeof(LogitKey);
}

__device__ inline LogitKey KeyOf(float logit, std::int64_t id) {
  const unsigned int bits = __float_as_uint(logit + 0.0f);  // one zero, not two
  const unsigned int ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<LogitKey>(ordered) << 32 | (0xffffffffu - static_cast<unsigned int>(id));
}

__device__ inline float LogitOf(LogitKey key) {
  const unsigned int ordered = static_cast<unsigned int>(key >> 32);
  return __uint_as_float((ordered & 0x80000000u) != 0 ? ordered & 0x7fffffffu : ~ordered);
}

__device__ inline std::int32_t IdOf(LogitKey key) {
  return static_cast<std::int32_t>(0xffffffffu - static_cast<unsigned int>(key));
}

// All threads of the block: keys [0, size), size a power of two, best first.
__device__ inline void SortBestFirst(LogitKey* keys, int size) {
  for (int width = 2; width <= size; width *= 2) {
    for (int step = width / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int i = threadIdx.x; i < size; i += kTopThreads) {
        const int other = i ^ step;
        if (other < i) continue;
        const LogitKey a = keys[i];
        const LogitKey b = keys[other];
        if ((a < b) == ((i & width) == 0)) {
          keys[i] = b;
          keys[other] = a;
        }
      }
    }
  }
  __syncthreads();
}

// The sum over the block, for every thread.
__device__ inline float BlockSum(float value) {
  __shared__ float warp_sums[kTopThreads / kWarpThreads];
  value = NeighbourSum<kWarpThreads>(value);
  __syncthreads();  // an earlier call's were read
  if (threadIdx.x % kWarpThreads == 0) warp_sums[threadIdx.x / kWarpThreads] = value;
  __syncthreads();
  float sum = 0.0f;
  for (int warp = 0; warp < kTopThreads / kWarpThreads; ++warp) sum += warp_sums[warp];
  return sum;
}

// The best key below `limit` of a row, for every thread; `keys` has room for one of each.
__device__ inline LogitKey BestBelow(const float* logits, std::int64_t vocabulary, LogitKey limit,
                                     LogitKey* keys) {
  LogitKey best = 0;
  for (std::int64_t i = threadIdx.x; i < vocabulary; i += kTopThreads) {
    const LogitKey key = KeyOf(logits[i], i);
    if (key < limit && key > best) best = key;
  }
  __syncthreads();  // an earlier call's were read
  keys[threadIdx.x] = best;
  for (unsigned int step = kTopThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step && keys[threadIdx.x] < keys[threadIdx.x + step]) {
      keys[threadIdx.x] = keys[threadIdx.x + step];
    }
  }
  __syncthreads();
  return keys[0];
}

// blockIdx.x is the row.
__global__ void __launch_bounds__(kTopThreads)
    TopLogitsKernel(Rows<const float> logits, const float* temperatures, TopRows best,
                    std::int64_t vocabulary) {
  __shared__ int found;
  LogitKey* const keys = DynamicShared<LogitKey>();
  const float* const row = logits.data + blockIdx.x * logits.stride;
  float* const values = best.values.data + blockIdx.x * best.values.stride;
  std::int32_t* const ids = best.ids.data + blockIdx.x * best.ids.stride;
  float* const sums = best.sums.data + blockIdx.x * best.sums.stride;

  LogitKey own = 0;
  float not_numbers = 0.0f;
  for (std::int64_t i = threadIdx.x; i < vocabulary; i += kTopThreads) {
    const float logit = row[i];
    if (logit != logit) not_numbers = 1.0f;
    const LogitKey key = KeyOf(logit, i);
    if (key > own) own = key;
  }
  keys[threadIdx.x] = own;
  if (threadIdx.x == 0) found = 0;
  const bool broken = BlockSum(not_numbers) > 0.0f;
  SortBestFirst(keys, kTopThreads);
  const float largest = LogitOf(keys[0]);
  const LogitKey bound = keys[best.k - 1];
  __syncthreads();  // keys were read

  const float temperature = temperatures[blockIdx.x] > 0.0f ? temperatures[blockIdx.x] : 1.0f;
  float plain = 0.0f;
  float tempered = 0.0f;
  for (std::int64_t i = threadIdx.x; i < vocabulary; i += kTopThreads) {
    const float logit = row[i];
    plain += expf(logit - largest);
    tempered += expf((logit - largest) / temperature);
    const LogitKey key = KeyOf(logit, i);
    if (key < bound) continue;
    const int place = atomicAdd(&found, 1);
    if (place < kTopRoom) keys[place] = key;
  }
  plain = BlockSum(plain);
  tempered = BlockSum(tempered);
  if (threadIdx.x == 0) {
    const bool usable = !broken && largest - largest == 0.0f;
    sums[0] = usable ? plain : NAN;
    sums[1] = usable ? tempered : NAN;
  }

  const int count = found;
  if (count <= kTopRoom) {
    int size = 1;
    while (size < count) size *= 2;
    for (int i = count + threadIdx.x; i < size; i += kTopThreads) keys[i] = 0;
    SortBestFirst(keys, size);
    for (int i = threadIdx.x; i < best.k; i += kTopThreads) {
      values[i] = LogitOf(keys[i]);
      ids[i] = IdOf(keys[i]);
    }
    return;
  }
  LogitKey last = ~LogitKey{0};
  for (int i = 0; i < best.k; ++i) {
    last = BestBelow(row, vocabulary, last, keys);
    if (threadIdx.x == 0) {
      values[i] = LogitOf(last);
      ids[i] = IdOf(last);
    }
  }
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_TOP_LOGITS_CUH_
