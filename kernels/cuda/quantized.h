// Launchers of the kernels that read quantised weights, and how these lie in device memory.
#ifndef SCD_KERNELS_CUDA_QUANTIZED_H_
#define SCD_KERNELS_CUDA_QUANTIZED_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/rows.h"
#include "kernels/dtype.h"

namespace scd::cuda {

// w[o, i] = scales[o, i / 32] * q[o, i] + minimums[o, i / 32]
struct QuantizedRows {
  const void* values = nullptr;     // [out, in]: i8, or two of 4 bits in a byte, the first in its lower half
  int bits = 8;                     // 4 or 8
  const void* scales = nullptr;     // [out, in / 32]
  const void* minimums = nullptr;   // the same; nullptr: all 0
  DType group_dtype = DType::kF32;  // of scales and minimums: f32 or f16
  std::int64_t in_features = 0;     // a multiple of 32
};

// Most rows of x that one launch of LaunchQuantizedProduct takes.
inline constexpr int kMostFewRows = 8;

// out [rows, columns] (+)= x [rows, in] W^T + bias for columns [begin, begin + columns) of W; up to
// kMostFewRows rows, x as it is, sums in f32. bias of the first of these columns on; nullptr: none.
cudaError_t LaunchQuantizedProduct(cudaStream_t stream, Rows<const float> x, std::int64_t rows,
                                   const QuantizedRows& weight, std::int64_t begin, std::int64_t columns,
                                   const float* bias, bool accumulate, Rows<float> out);

// Rows [begin, begin + count) of W as numbers of dst's dtype.
cudaError_t LaunchDequantize(cudaStream_t stream, const QuantizedRows& weight, std::int64_t begin,
                             std::int64_t count, AnyRowsOut dst);

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_QUANTIZED_H_
