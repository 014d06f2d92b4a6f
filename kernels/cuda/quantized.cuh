// Kernels over quantised weights: a product of few rows, one warp for each column of the result, that reads
// each weight once; and writing weights out for a dense product of many rows. Threads take words of 32 bits,
// so that a warp reads 128 bytes in a row.
#ifndef SCD_KERNELS_CUDA_QUANTIZED_CUH_
#define SCD_KERNELS_CUDA_QUANTIZED_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/quantized.h"
#include "kernels/cuda/warp.cuh"

namespace scd::cuda {

inline constexpr int kGroupWeights = 32;

// One word of weights: kCount neighbours of one group.
template <int kBits>
struct WeightWord {
  static constexpr int kCount = 32 / kBits;

  __device__ WeightWord(const QuantizedRows& weight, std::int64_t row, std::int64_t column) {
    const std::int64_t first = row * weight.in_features + column;
    word = static_cast<const unsigned int*>(weight.values)[first / kCount];
    const std::int64_t group = first / kGroupWeights;
    scale = LoadNumber(weight.scales, weight.group_dtype, group);
    minimum = weight.minimums == nullptr ? 0.0f : LoadNumber(weight.minimums, weight.group_dtype, group);
  }

  __device__ float Integer(int j) const {
    return kBits == 8 ? SignedByte(word, j) : static_cast<float>((word >> (4 * j)) & 0xfu);
  }

  unsigned int word;
  float scale;
  float minimum;
};

// Blocks are [32, columns of a block].
template <int kBits, int kRows>
__global__ void QuantizedProductKernel(Rows<const float> x, int rows, QuantizedRows weight,
                                       std::int64_t begin, std::int64_t columns, const float* bias,
                                       bool accumulate, Rows<float> out) {
  constexpr int kCount = WeightWord<kBits>::kCount;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (column >= columns) return;
  float sums[kRows] = {};
  for (std::int64_t i = threadIdx.x * kCount; i < weight.in_features; i += kWarpThreads * kCount) {
    const WeightWord<kBits> weights(weight, begin + column, i);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) break;
      const float* numbers = x.data + r * x.stride + i;
      float product = 0.0f;
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        product += weights.Integer(j) * numbers[j];
        sum += numbers[j];
      }
      sums[r] += weights.scale * product + weights.minimum * sum;
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= rows) break;
    const float sum = NeighbourSum<kWarpThreads>(sums[r]);
    if (threadIdx.x != 0) continue;
    float& result = out.data[r * out.stride + column];
    result = sum + (bias == nullptr ? 0.0f : bias[column]) + (accumulate ? result : 0.0f);
  }
}

// blockIdx is (row of dst, share of its words).
template <int kBits>
__global__ void DequantizeKernel(QuantizedRows weight, std::int64_t begin, AnyRowsOut dst) {
  constexpr int kCount = WeightWord<kBits>::kCount;
  const std::int64_t row = blockIdx.x;
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * kCount;
  if (i >= weight.in_features) return;
  const WeightWord<kBits> weights(weight, begin + row, i);
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    StoreNumber(dst.data, dst.dtype, row * dst.stride + i + j,
                weights.scale * weights.Integer(j) + weights.minimum);
  }
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_QUANTIZED_CUH_
