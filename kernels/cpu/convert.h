// Rows of elements from one float dtype to another, on the calling thread.
#ifndef SCD_KERNELS_CPU_CONVERT_H_
#define SCD_KERNELS_CPU_CONVERT_H_

#include <cstdint>

#include "kernels/dtype.h"

namespace scd::cpu {

// Any pair among f32, f16 and bf16, with the rounding of kernels/dtype.h. dst and src do not overlap.
void ConvertRow(DType src_dtype, const void* src, DType dst_dtype, void* dst, std::int64_t count);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_CONVERT_H_
