// The fields of GGUF's quantised blocks, for the two readers of them: as floats and as integers.
#ifndef SCD_COMMON_MODEL_GGUF_BLOCK_FIELDS_H_
#define SCD_COMMON_MODEL_GGUF_BLOCK_FIELDS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace scd::gguf {

inline constexpr int kBlock = 32;        // weights of a plain block
inline constexpr int kSuperBlock = 256;  // weights of a "K" block
inline constexpr int kScaleBytes = 12;   // eight 6-bit scales and eight 6-bit minima

inline std::uint8_t Byte(const std::byte* p, int i) {
  return static_cast<std::uint8_t>(p[i]);
}
inline std::uint16_t Half(const std::byte* p) {
  return static_cast<std::uint16_t>(Byte(p, 0) | Byte(p, 1) << 8);
}
inline float Scale(const std::byte* p) {
  return F16ToFloat(Half(p));
}
inline int LowNibble(std::uint8_t b) {
  return b & 0x0f;
}
inline int HighNibble(std::uint8_t b) {
  return b >> 4;
}
inline std::uint32_t Word(const std::byte* p) {
  return static_cast<std::uint32_t>(Half(p)) | static_cast<std::uint32_t>(Half(p + 2)) << 16;
}
// The fifth bit of weight j is bit j of a 32-bit word.
inline int FifthBit(std::uint32_t high, int j) {
  return static_cast<int>(high >> j & 1) << 4;
}

struct ScaleAndMin {
  float scale;
  float min;
};

// The i-th of eight 6-bit scales and minima in 12 bytes: the first four lie in the low six bits of bytes 0-3
// and 4-7, the others in the nibbles of bytes 8-11 with their upper two bits in the spare bits of the first
// eight bytes.
inline ScaleAndMin PackedScale(const std::byte* packed, int i) {
  if (i < 4) return {static_cast<float>(Byte(packed, i) & 63), static_cast<float>(Byte(packed, i + 4) & 63)};
  const std::uint8_t low = Byte(packed, i + 4);
  return {static_cast<float>(LowNibble(low) | Byte(packed, i - 4) >> 6 << 4),
          static_cast<float>(HighNibble(low) | Byte(packed, i) >> 6 << 4)};
}

}  // namespace scd::gguf

#endif  // SCD_COMMON_MODEL_GGUF_BLOCK_FIELDS_H_
