// RMSNorm of rows. Blocks are [threads of a row, rows of a block]: 32 threads for short rows, several of
// which share a block, or kWideRowThreads for long ones.
#ifndef SCD_KERNELS_CUDA_RMS_NORM_CUH_
#define SCD_KERNELS_CUDA_RMS_NORM_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/rows.h"
#include "kernels/cuda/warp.cuh"

namespace scd::cuda {

inline constexpr int kWideRowThreads = 256;

// The sum over all threads of a row; for rows of several warps the block has one row.
__device__ inline float RowSum(float value) {
  __shared__ float warp_sums[kWideRowThreads / kWarpThreads];
  value = NeighbourSum<kWarpThreads>(value);
  if (blockDim.x == kWarpThreads) return value;
  if (threadIdx.x % kWarpThreads == 0) warp_sums[threadIdx.x / kWarpThreads] = value;
  __syncthreads();
  float sum = 0.0f;
  for (unsigned int warp = 0; warp < blockDim.x / kWarpThreads; ++warp) sum += warp_sums[warp];
  return sum;
}

__global__ void RmsNormKernel(Rows<const float> x, const float* weight, float epsilon, Rows<float> out,
                              std::int64_t rows, std::int64_t dim) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  // Whole warps are idle then, for a row of a shared block is one warp.
  if (row >= rows) return;
  const float* x_row = x.data + row * x.stride;
  float squares = 0.0f;
  for (std::int64_t i = threadIdx.x; i < dim; i += blockDim.x) squares += x_row[i] * x_row[i];
  const float scale = 1.0f / sqrtf(RowSum(squares) / static_cast<float>(dim) + epsilon);
  float* out_row = out.data + row * out.stride;
  for (std::int64_t i = threadIdx.x; i < dim; i += blockDim.x) out_row[i] = x_row[i] * scale * weight[i];
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_RMS_NORM_CUH_
