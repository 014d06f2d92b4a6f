// The scalar types of GGUF metadata.
#ifndef SCD_COMMON_MODEL_GGUF_VALUE_H_
#define SCD_COMMON_MODEL_GGUF_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace scd {

// Unscoped on purpose: a file may hold any number, and only these mean something.
struct GgufValueType {
  enum : std::uint32_t {
    kU8 = 0,
    kI8 = 1,
    kU16 = 2,
    kI16 = 3,
    kU32 = 4,
    kI32 = 5,
    kF32 = 6,
    kBool = 7,
    kString = 8,
    kArray = 9,
    kU64 = 10,
    kI64 = 11,
    kF64 = 12,
  };
};

// "u32", "string" ...; "type 77" for numbers without meaning.
std::string GgufValueTypeName(std::uint32_t type);

// Bytes of a scalar; 0 for strings, arrays and numbers without meaning.
std::size_t GgufScalarBytes(std::uint32_t type);

// num_bytes (at most 8) at data, least significant first.
std::uint64_t GgufLittleEndian(const std::byte* data, std::size_t num_bytes);

// The value at data as an integer; absent for other types, and for a u64 beyond the range of int64.
std::optional<std::int64_t> GgufInteger(std::uint32_t type, const std::byte* data);
// The value at data as a number, integers included; absent for other types.
std::optional<double> GgufNumber(std::uint32_t type, const std::byte* data);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_GGUF_VALUE_H_
