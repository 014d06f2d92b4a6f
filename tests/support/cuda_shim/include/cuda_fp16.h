// CUDA's f16 for the CPU: the conversions that kernels use.
#ifndef SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_CUDA_FP16_H_
#define SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_CUDA_FP16_H_

#include <cstdint>

#include "kernels/dtype.h"

struct __half {
  std::uint16_t bits;
};

inline float __half2float(__half number) {
  return scd::F16ToFloat(number.bits);
}

inline __half __float2half_rn(float number) {
  return {scd::FloatToF16(number)};
}

inline __half __ushort_as_half(unsigned short bits) {
  return {bits};
}

inline unsigned short __half_as_ushort(__half number) {
  return number.bits;
}

#endif  // SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_CUDA_FP16_H_
