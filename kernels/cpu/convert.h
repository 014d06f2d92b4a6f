// Rows of elements from one float dtype to another, on the calling thread.
#ifndef SCD_KERNELS_CPU_CONVERT_H_
#define SCD_KERNELS_CPU_CONVERT_H_

#include <cstdint>

#include "kernels/tensor_view.h"

namespace scd::cpu {

// Any pair among f32, f16 and bf16, with the rounding of kernels/dtype.h. dst and src do not overlap.
void ConvertRow(DType src_dtype, const void* src, DType dst_dtype, void* dst, std::int64_t count);

// Rows [begin, end) of src [rows, width] to the same rows of dst [rows, width]; either may be strided. Dtypes
// are equal, or any pair of the above.
void ConvertRows(const ConstTensorView& src, const TensorView& dst, std::int64_t begin, std::int64_t end);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_CONVERT_H_
