// Launchers of the pointwise kernels. Numbers are f32 in device memory; counts of 0 are nothing to do.
#ifndef SCD_KERNELS_CUDA_POINTWISE_H_
#define SCD_KERNELS_CUDA_POINTWISE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/bad_index.h"
#include "kernels/cuda/rows.h"
#include "kernels/dtype.h"

namespace scd::cuda {

// Rows of any float dtype.
struct AnyRows {
  const void* data = nullptr;
  DType dtype = DType::kF32;  // f32, f16 or bf16
  std::int64_t stride = 0;    // elements
};
struct AnyRowsOut {
  void* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t stride = 0;
};

// [num_positions, head_dim / 2] each.
struct RopeRows {
  Rows<const float> cos;
  Rows<const float> sin;
  std::int64_t num_positions = 0;
};

// x, out [rows, dim], weight [dim]; out may be x.
cudaError_t LaunchRmsNorm(cudaStream_t stream, Rows<const float> x, const float* weight, float epsilon,
                          Rows<float> out, std::int64_t rows, std::int64_t dim);

// x [tokens, heads, head_dim], heads beside each other; positions [tokens].
cudaError_t LaunchRope(cudaStream_t stream, Rows<float> x, const std::int32_t* positions, RopeRows table,
                       std::int64_t tokens, std::int64_t heads, std::int64_t head_dim, BadIndexWord* bad);

// out [rows, dim] = silu(gate) * up, or with up.data == nullptr silu(gate); out may be gate or up.
cudaError_t LaunchSwiGlu(cudaStream_t stream, Rows<const float> gate, Rows<const float> up, Rows<float> out,
                         std::int64_t rows, std::int64_t dim);

// out [tokens, dim] = table[ids]; table [vocabulary, dim].
cudaError_t LaunchEmbed(cudaStream_t stream, AnyRows table, std::int64_t vocabulary, const std::int32_t* ids,
                        Rows<float> out, std::int64_t tokens, std::int64_t dim, BadIndexWord* bad);

// out [rows, dim] = scale * out + bias [dim] (nullptr: none); with scale 0 the old out is not read.
cudaError_t LaunchScaleAndBias(cudaStream_t stream, Rows<float> out, float scale, const float* bias,
                               std::int64_t rows, std::int64_t dim);

// dst [rows, dim] = src, rounded to nearest; of each row of dst the elements [dim, padded_dim) become 0.
cudaError_t LaunchConvert(cudaStream_t stream, AnyRowsOut dst, AnyRows src, std::int64_t rows,
                          std::int64_t dim, std::int64_t padded_dim);

// cudaErrorNoKernelImageForDevice where this was not built for the current device.
cudaError_t CheckKernels();

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_POINTWISE_H_
