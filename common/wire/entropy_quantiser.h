// Latent numbers <-> symbols of the entropy codec (docs/formats.md), a granule at a time, row by row.
//
// q = z (1 / step), in f32, rounded half to even. Its symbol is q + 63 for q from -63 to 63; any other q is
// escaped, as is one that its column's table does not have, which the coder sees to.
#ifndef SCD_COMMON_WIRE_ENTROPY_QUANTISER_H_
#define SCD_COMMON_WIRE_ENTROPY_QUANTISER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/config/entropy_tables.h"
#include "common/wire/entropy_columns.h"

namespace scd {

inline constexpr float kLargestEscape = 0x1p30f;
inline constexpr std::uint8_t kZeroSymbol = kLargestSymbolValue;

// Symbols of a granule: token t's of column c is row(t)[c]. Rows are an odd number of cache lines apart, so
// that a column's symbols do not push each other out of the cache.
class GranuleSymbols {
 public:
  // All of them kZeroSymbol.
  GranuleSymbols(std::int64_t num_tokens, std::size_t rank);

  std::size_t stride() const { return stride_; }
  std::uint8_t* row(std::int64_t token) {
    return symbols_.data() + static_cast<std::size_t>(token) * stride_;
  }
  const std::uint8_t* row(std::int64_t token) const {
    return symbols_.data() + static_cast<std::size_t>(token) * stride_;
  }

 private:
  std::size_t stride_;
  std::vector<std::uint8_t> symbols_;
};

// rows [num_tokens, rank] -> symbols, the escape's for q outside -63..63. False, with symbols
// unspecified, for a number that is not finite (in any column) or |q| over kLargestEscape.
bool Quantise(const EntropyColumns& columns, const float* rows, std::int64_t num_tokens,
              GranuleSymbols& symbols);

// One q, |q| <= kLargestEscape.
std::int32_t QuantiseNumber(float number, float inverse);

// symbols -> q step in `rows` [num_tokens, rank]; an escape's place holds a number to be overwritten.
void Dequantise(const EntropyColumns& columns, const GranuleSymbols& symbols, std::int64_t num_tokens,
                float* rows);

}  // namespace scd

#endif  // SCD_COMMON_WIRE_ENTROPY_QUANTISER_H_
