// Kernels that treat each element of [rows, dim] alone: activation, embedding, conversion, bias. A block has
// a row, or a share of its columns: blockIdx is (row, share).
#ifndef SCD_KERNELS_CUDA_ELEMENTWISE_CUH_
#define SCD_KERNELS_CUDA_ELEMENTWISE_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/bad_index.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/pointwise.h"

namespace scd::cuda {

// visit(column) for this thread's columns.
template <typename Visit>
__device__ inline void ForEachColumn(std::int64_t dim, const Visit& visit) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; i < dim;
       i += step) {
    visit(i);
  }
}

// Without overflow for any x: the exponential is of a number that is not positive.
__device__ inline float SiluOf(float x) {
  const float small = expf(-fabsf(x));
  return x * (x >= 0.0f ? 1.0f : small) / (1.0f + small);
}

__global__ void SwiGluKernel(Rows<const float> gate, Rows<const float> up, Rows<float> out,
                             std::int64_t dim) {
  const std::int64_t row = blockIdx.x;
  ForEachColumn(dim, [=](std::int64_t i) {
    float value = SiluOf(gate.data[row * gate.stride + i]);
    if (up.data != nullptr) value *= up.data[row * up.stride + i];
    out.data[row * out.stride + i] = value;
  });
}

__global__ void EmbedKernel(AnyRows table, std::int64_t vocabulary, const std::int32_t* ids, Rows<float> out,
                            std::int64_t dim, BadIndexWord* bad) {
  const std::int64_t token = blockIdx.x;
  const std::int32_t id = ids[token];
  if (!CheckIndex(id, vocabulary, IndexOperand::kEmbedIds, token, bad)) return;
  ForEachColumn(dim, [=](std::int64_t i) {
    out.data[token * out.stride + i] = LoadNumber(table.data, table.dtype, id * table.stride + i);
  });
}

__global__ void ScaleAndBiasKernel(Rows<float> out, float scale, const float* bias, std::int64_t dim) {
  const std::int64_t row = blockIdx.x;
  ForEachColumn(dim, [=](std::int64_t i) {
    float& element = out.data[row * out.stride + i];
    const float added = bias == nullptr ? 0.0f : bias[i];
    element = scale == 0.0f ? added : scale * element + added;
  });
}

__global__ void ConvertKernel(AnyRowsOut dst, AnyRows src, std::int64_t dim, std::int64_t padded_dim) {
  const std::int64_t row = blockIdx.x;
  ForEachColumn(padded_dim, [=](std::int64_t i) {
    const float value = i < dim ? LoadNumber(src.data, src.dtype, row * src.stride + i) : 0.0f;
    StoreNumber(dst.data, dst.dtype, row * dst.stride + i, value);
  });
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_ELEMENTWISE_CUH_
