// One warp puts one vector of one token and KV head into its page: bias, RoPE, rounding or quantising,
// writing.
#ifndef SCD_KERNELS_CUDA_KV_STORE_CUH_
#define SCD_KERNELS_CUDA_KV_STORE_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/bad_index.cuh"
#include "kernels/cuda/kv_store.h"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/turn.cuh"
#include "kernels/cuda/warp.cuh"

namespace scd::cuda {

// Number i of the vector as it is to be kept. Read again wherever it is needed: the vector is in the first
// cache, and registers for any head_dim are not to be had.
__device__ inline float FinalNumber(const StoreVectors& source, const float* vector, const float* bias,
                                    std::int32_t position, std::int64_t head_dim, std::int64_t i) {
  const auto number = [=](std::int64_t at) { return vector[at] + (bias == nullptr ? 0.0f : bias[at]); };
  if (source.rope.cos.data == nullptr) return number(i);
  const std::int64_t half = head_dim / 2;
  const std::int64_t low = i < half ? i : i - half;
  const Pair turned =
      Turn({number(low), number(low + half)}, source.rope.cos.data[position * source.rope.cos.stride + low],
           source.rope.sin.data[position * source.rope.sin.stride + low]);
  return i < half ? turned.low : turned.high;
}

// Blocks are [32, vectors of a block].
__global__ void StoreVectorsKernel(StoreVectors source, PagesOut to, BadIndexWord* bad) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const std::int64_t token = index / to.kv_heads;
  const std::int64_t head = index % to.kv_heads;
  // All threads of a warp go on or none does.
  if (token >= source.tokens) return;
  const std::int32_t position = source.positions[token];
  std::int64_t limit = source.block_table_size * to.page_tokens;
  if (source.rope.cos.data != nullptr && source.rope.num_positions < limit) limit = source.rope.num_positions;
  if (!CheckIndex(position, limit, source.positions_operand, token, bad)) return;
  const std::int64_t entry = position / to.page_tokens;
  const std::int32_t page = source.block_table[entry];
  if (!CheckIndex(page, to.num_pages, source.block_table_operand, entry, bad)) return;

  const float* vector = source.vectors.data + token * source.vectors.stride + head * to.head_dim;
  const float* bias = source.bias == nullptr ? nullptr : source.bias + head * to.head_dim;
  const std::int64_t slot = head * to.page_tokens + position % to.page_tokens;
  const std::int64_t first = page * to.page_stride + slot * to.head_dim;
  if (to.dtype != DType::kI8) {
    for (std::int64_t i = threadIdx.x; i < to.head_dim; i += kWarpThreads) {
      StoreNumber(to.pages, to.dtype, first + i, FinalNumber(source, vector, bias, position, to.head_dim, i));
    }
    return;
  }
  float largest = 0.0f;
  for (std::int64_t i = threadIdx.x; i < to.head_dim; i += kWarpThreads) {
    largest = fmaxf(largest, fabsf(FinalNumber(source, vector, bias, position, to.head_dim, i)));
  }
  largest = NeighbourMax<kWarpThreads>(largest);
  if (threadIdx.x == 0) to.scales[page * to.scale_stride + slot] = largest / 127.0f;
  const float steps = largest > 0.0f ? 127.0f / largest : 0.0f;
  for (std::int64_t i = threadIdx.x; i < to.head_dim; i += kWarpThreads) {
    const float whole = rintf(FinalNumber(source, vector, bias, position, to.head_dim, i) * steps);
    static_cast<std::int8_t*>(to.pages)[first + i] =
        static_cast<std::int8_t>(fminf(127.0f, fmaxf(-127.0f, whole)));
  }
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_KV_STORE_CUH_
