// CUDA's bf16 for the CPU: the conversions that kernels use.
#ifndef SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_CUDA_BF16_H_
#define SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_CUDA_BF16_H_

#include <cstdint>

#include "kernels/dtype.h"

struct __nv_bfloat16 {
  std::uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 number) {
  return scd::Bf16ToFloat(number.bits);
}

inline __nv_bfloat16 __float2bfloat16_rn(float number) {
  return {scd::FloatToBf16(number)};
}

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 number) {
  return number.bits;
}

#endif  // SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_CUDA_BF16_H_
