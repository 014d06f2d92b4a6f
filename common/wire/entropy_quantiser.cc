#include "common/wire/entropy_quantiser.h"

#include <bit>
#include <cmath>

namespace scd {
namespace {

constexpr std::size_t kCacheLine = 64;

// Added to a number of magnitude under 2^22 it leaves the number, rounded half to even, in the lowest bits:
// the sum's last bit is worth 1.
constexpr float kRounder = 0x1.8p23f;
// Magnitudes from here on are rounded to more than kLargestSymbolValue.
constexpr float kFirstEscape = kLargestSymbolValue + 0.5f;

// Magnitudes, NaN above all, are ordered as the integers that have their bits.
std::int32_t Ordered(float magnitude) {
  return std::bit_cast<std::int32_t>(magnitude);
}

}  // namespace

GranuleSymbols::GranuleSymbols(std::int64_t num_tokens, std::size_t rank)
    : stride_(((rank + kCacheLine - 1) / kCacheLine | 1) * kCacheLine),
      symbols_(static_cast<std::size_t>(num_tokens) * stride_, kZeroSymbol) {}

bool Quantise(const EntropyColumns& columns, const float* rows, std::int64_t num_tokens,
              GranuleSymbols& symbols) {
  const std::size_t rank = columns.steps.size();
  const float* const inverses = columns.inverses.data();
  std::int32_t largest_excess = -1;  // its sign is clear where any number's is
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    const float* const row = rows + static_cast<std::size_t>(t) * rank;
    std::uint8_t* const to = symbols.row(t);
    for (std::size_t c = 0; c < rank; ++c) {
      const float x = row[c] * inverses[c];
      const std::int32_t magnitude = Ordered(x) & 0x7FFF'FFFF;
      largest_excess &= magnitude - Ordered(kLargestEscape) - 1;
      const auto all_where_escaped =
          static_cast<std::uint32_t>((Ordered(kFirstEscape) - 1 - magnitude) >> 31);
      const std::uint32_t symbol = std::bit_cast<std::uint32_t>(x + kRounder) + kZeroSymbol;
      to[c] = static_cast<std::uint8_t>((symbol | all_where_escaped) & (kEntropySymbols - 1));
    }
  }
  return largest_excess < 0;
}

std::int32_t QuantiseNumber(float number, float inverse) {
  return static_cast<std::int32_t>(std::nearbyint(number * inverse));
}

void Dequantise(const EntropyColumns& columns, const GranuleSymbols& symbols, std::int64_t num_tokens,
                float* rows) {
  const std::size_t rank = columns.steps.size();
  const float* const steps = columns.steps.data();
  for (std::int64_t t = 0; t < num_tokens; ++t, rows += rank) {
    const std::uint8_t* const from = symbols.row(t);
    for (std::size_t c = 0; c < rank; ++c) {
      rows[c] = static_cast<float>(static_cast<std::int32_t>(from[c]) - kZeroSymbol) * steps[c];
    }
  }
}

}  // namespace scd
