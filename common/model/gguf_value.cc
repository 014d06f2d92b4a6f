#include "common/model/gguf_value.h"

#include <array>
#include <bit>

#include "absl/strings/str_cat.h"

namespace scd {
namespace {

struct TypeInfo {
  const char* name;
  std::size_t bytes;
};

constexpr std::array<TypeInfo, 13> kTypes = {{{"u8", 1},
                                              {"i8", 1},
                                              {"u16", 2},
                                              {"i16", 2},
                                              {"u32", 4},
                                              {"i32", 4},
                                              {"f32", 4},
                                              {"bool", 1},
                                              {"string", 0},
                                              {"array", 0},
                                              {"u64", 8},
                                              {"i64", 8},
                                              {"f64", 8}}};

}  // namespace

std::string GgufValueTypeName(std::uint32_t type) {
  return type < kTypes.size() ? kTypes[type].name : absl::StrCat("type ", type);
}

std::size_t GgufScalarBytes(std::uint32_t type) {
  return type < kTypes.size() ? kTypes[type].bytes : 0;
}

std::uint64_t GgufLittleEndian(const std::byte* data, std::size_t num_bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < num_bytes; ++i) value |= static_cast<std::uint64_t>(data[i]) << (8 * i);
  return value;
}

std::optional<std::int64_t> GgufInteger(std::uint32_t type, const std::byte* data) {
  const std::uint64_t bits = GgufLittleEndian(data, GgufScalarBytes(type));
  switch (type) {
    case GgufValueType::kU8:
    case GgufValueType::kU16:
    case GgufValueType::kU32:
      return static_cast<std::int64_t>(bits);
    case GgufValueType::kI8:
      return static_cast<std::int8_t>(bits);
    case GgufValueType::kI16:
      return static_cast<std::int16_t>(bits);
    case GgufValueType::kI32:
      return static_cast<std::int32_t>(bits);
    case GgufValueType::kI64:
      return static_cast<std::int64_t>(bits);
    case GgufValueType::kU64:
      if (bits > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<std::int64_t>(bits);
    default:
      return std::nullopt;
  }
}

std::optional<double> GgufNumber(std::uint32_t type, const std::byte* data) {
  const std::uint64_t bits = GgufLittleEndian(data, GgufScalarBytes(type));
  if (type == GgufValueType::kF32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (type == GgufValueType::kF64) return std::bit_cast<double>(bits);
  if (type == GgufValueType::kU64) return static_cast<double>(bits);
  const auto integer = GgufInteger(type, data);
  if (!integer) return std::nullopt;
  return static_cast<double>(*integer);
}

}  // namespace scd
