// Rotary position embedding in place.
#ifndef SCD_KERNELS_CUDA_ROPE_CUH_
#define SCD_KERNELS_CUDA_ROPE_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/bad_index.cuh"
#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/turn.cuh"

namespace scd::cuda {

// One block for each token.
__global__ void RopeKernel(Rows<float> x, const std::int32_t* positions, RopeRows table, std::int64_t heads,
                           std::int64_t head_dim, BadIndexWord* bad) {
  const std::int64_t token = blockIdx.x;
  const std::int32_t position = positions[token];
  if (!CheckIndex(position, table.num_positions, IndexOperand::kRopePositions, token, bad)) return;
  const float* cos = table.cos.data + position * table.cos.stride;
  const float* sin = table.sin.data + position * table.sin.stride;
  const std::int64_t half = head_dim / 2;
  for (std::int64_t pair = threadIdx.x; pair < heads * half; pair += blockDim.x) {
    const std::int64_t i = pair % half;
    float* head = x.data + token * x.stride + pair / half * head_dim;
    const Pair turned = Turn({head[i], head[i + half]}, cos[i], sin[i]);
    head[i] = turned.low;
    head[i + half] = turned.high;
  }
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_ROPE_CUH_
