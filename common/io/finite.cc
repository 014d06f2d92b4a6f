#include "common/io/finite.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace scd {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in memory");

// A number is NaN or infinite where all bits of its exponent are set: then adding the exponent's lowest bit
// carries into the sign's place, which is clear after masking. Several numbers share one word.
bool ExponentsBelowMax(absl::Span<const std::byte> bytes, std::uint64_t exponent, std::uint64_t lowest,
                       std::uint64_t sign) {
  std::uint64_t carries = 0;
  std::size_t i = 0;
  for (; i + sizeof(std::uint64_t) <= bytes.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    carries |= (word & exponent) + lowest;
  }
  if (i < bytes.size()) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, bytes.size() - i);
    carries |= (word & exponent) + lowest;
  }
  return (carries & sign) == 0;
}

}  // namespace

bool AllFinite(DType dtype, absl::Span<const std::byte> bytes) {
  const absl::Span<const std::byte> whole = bytes.first(bytes.size() / DTypeBytes(dtype) * DTypeBytes(dtype));
  switch (dtype) {
    case DType::kF32:
      return ExponentsBelowMax(whole, 0x7F80'0000'7F80'0000, 0x0080'0000'0080'0000, 0x8000'0000'8000'0000);
    case DType::kF16:
      return ExponentsBelowMax(whole, 0x7C00'7C00'7C00'7C00, 0x0400'0400'0400'0400, 0x8000'8000'8000'8000);
    case DType::kBF16:
      return ExponentsBelowMax(whole, 0x7F80'7F80'7F80'7F80, 0x0080'0080'0080'0080, 0x8000'8000'8000'8000);
    case DType::kI32:
    case DType::kI8:
    case DType::kU8:
      return true;
  }
  return true;
}

}  // namespace scd
