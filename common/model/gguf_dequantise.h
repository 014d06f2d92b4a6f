// The element types of GGUF tensors that can be read, and their conversion to float.
//
// Quantised types store a row as blocks of 32 or 256 weights with shared scales. Values are made exactly as
// ggml makes them: scales are f16, products are f32.
#ifndef SCD_COMMON_MODEL_GGUF_DEQUANTISE_H_
#define SCD_COMMON_MODEL_GGUF_DEQUANTISE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace scd {

// The numbers are ggml's.
enum class GgmlType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

// Absent for a number that is not one of the above.
std::optional<GgmlType> GgmlTypeFromNumber(std::uint32_t number);
// "q4_1" ...; for numbers that ggml knows and this project does not read, ggml's name; else "type 250".
std::string GgmlTypeName(std::uint32_t number);
inline std::string GgmlTypeName(GgmlType type) {
  return GgmlTypeName(static_cast<std::uint32_t>(type));
}

// Weights in one block (1 for the float types) and bytes of one block.
std::int64_t GgmlBlockElements(GgmlType type);
std::int64_t GgmlBlockBytes(GgmlType type);

// num_blocks whole blocks at `blocks` (any alignment) -> num_blocks * GgmlBlockElements(type) floats at
// `out`.
void DequantiseBlocks(GgmlType type, const std::byte* blocks, std::int64_t num_blocks, float* out);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_GGUF_DEQUANTISE_H_
