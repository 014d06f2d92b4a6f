// The results of the parts of one item, merged: each part's sums are relative to its own largest score.
#ifndef SCD_KERNELS_CUDA_ATTENTION_MERGE_CUH_
#define SCD_KERNELS_CUDA_ATTENTION_MERGE_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention.h"

namespace scd::cuda {

// blockIdx is (item, KV head, sequence), one thread has every blockDim.x-th number.
__global__ void MergePartsKernel(const __grid_constant__ AttentionLaunch launch) {
  const SequenceRows& sequence = launch.sequences[blockIdx.z];
  const std::int64_t items = static_cast<std::int64_t>(sequence.query_count) * launch.group;
  const std::int64_t item = blockIdx.x;
  if (sequence.num_parts == 1 || item >= items) return;
  const std::int64_t size = launch.head_dim + 2;
  const std::int64_t step = launch.pages.kv_heads * items * size;
  const float* parts = launch.partials + sequence.partial_begin + (blockIdx.y * items + item) * size;

  float largest = -INFINITY;
  for (int p = 0; p < sequence.num_parts; ++p) largest = fmaxf(largest, parts[p * step]);
  float total = 0.0f;
  // A part that saw nothing has a largest score of minus infinity and the weight 0.
  for (int p = 0; p < sequence.num_parts; ++p) total += expf(parts[p * step] - largest) * parts[p * step + 1];
  float* to = launch.out.data + (sequence.query_begin + item / launch.group) * launch.out.stride +
              (blockIdx.y * launch.group + item % launch.group) * launch.head_dim;
  for (int d = threadIdx.x; d < launch.head_dim; d += blockDim.x) {
    float sum = 0.0f;
    for (int p = 0; p < sequence.num_parts; ++p) {
      sum += expf(parts[p * step] - largest) * parts[p * step + 2 + d];
    }
    to[d] = sum / total;
  }
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_ATTENTION_MERGE_CUH_
