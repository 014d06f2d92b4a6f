// Element types of tensors and the exact conversions between the 16-bit floats and float.
#ifndef SCD_KERNELS_DTYPE_H_
#define SCD_KERNELS_DTYPE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace scd {

enum class DType : std::uint8_t { kF32, kF16, kBF16, kI32, kI8, kU8 };

// Bytes of one element.
std::size_t DTypeBytes(DType dtype);

// "f32", "f16", "bf16", "i32", "i8", "u8".
std::string_view DTypeName(DType dtype);

// bf16 is the upper half of a float; rounding is to nearest, ties to even; NaN stays NaN.
inline float Bf16ToFloat(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}
std::uint16_t FloatToBf16(float value);

// IEEE binary16, subnormals included; rounding is to nearest, ties to even; overflow gives infinity.
float F16ToFloat(std::uint16_t bits);
std::uint16_t FloatToF16(float value);

}  // namespace scd

#endif  // SCD_KERNELS_DTYPE_H_
