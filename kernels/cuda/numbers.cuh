// Numbers of every float dtype as floats, one or four at a time.
#ifndef SCD_KERNELS_CUDA_NUMBERS_CUH_
#define SCD_KERNELS_CUDA_NUMBERS_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/dtype.h"

namespace scd::cuda {

// Element i of f32, f16 or bf16 numbers.
__device__ inline float LoadNumber(const void* numbers, DType dtype, std::int64_t i) {
  if (dtype == DType::kBF16) return __bfloat162float(static_cast<const __nv_bfloat16*>(numbers)[i]);
  if (dtype == DType::kF16) return __half2float(static_cast<const __half*>(numbers)[i]);
  return static_cast<const float*>(numbers)[i];
}

// Rounds to nearest.
__device__ inline void StoreNumber(void* numbers, DType dtype, std::int64_t i, float value) {
  if (dtype == DType::kBF16) {
    static_cast<__nv_bfloat16*>(numbers)[i] = __float2bfloat16_rn(value);
  } else if (dtype == DType::kF16) {
    static_cast<__half*>(numbers)[i] = __float2half_rn(value);
  } else {
    static_cast<float*>(numbers)[i] = value;
  }
}

// Two numbers rounded to bf16, the first in the lower half.
__device__ inline unsigned int PackBf16(float low, float high) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(low)) |
         static_cast<unsigned int>(__bfloat16_as_ushort(__float2bfloat16_rn(high))) << 16;
}

// The upper half of a float.
__device__ inline float Bf16BitsToFloat(unsigned int bits) {
  return __uint_as_float(bits << 16);
}

// Integer j of the four in a word.
__device__ inline float SignedByte(unsigned int word, int j) {
  return static_cast<float>(static_cast<signed char>((word >> (8 * j)) & 0xffu));
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_NUMBERS_CUH_
