// Tables of the entropy codec for the columns of one layer, kind and rate point: how latent columns are
// quantised, and how often each value occurs. They are fitted offline and stand in the bundle; producer and
// consumer use the same ones. docs/formats.md specifies the coding.
//
// A number z of column c becomes q = round(z / step[c]) and is rebuilt as q step[c] (exactly, in f32). Steps
// come from reverse water-filling: at a distortion D every column that is worth sending gets the same error,
// columns whose variance is below it get none and step 0: they are not sent and are rebuilt as 0.
#ifndef SCD_COMMON_CONFIG_ENTROPY_TABLES_H_
#define SCD_COMMON_CONFIG_ENTROPY_TABLES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace scd {

// Symbols of a column: q from -kLargestSymbolValue to kLargestSymbolValue in order, then the escape, behind
// which any other q follows as it is.
inline constexpr std::int64_t kLargestSymbolValue = 63;
inline constexpr std::int64_t kEntropySymbols = 2 * kLargestSymbolValue + 2;
inline constexpr std::int64_t kEscapeSymbol = kEntropySymbols - 1;
// Frequencies of a column's symbols sum to 1 << kEntropyBits.
inline constexpr int kEntropyBits = 12;
// Steps of columns that are sent. Within these, 1 / step and 2^31 steps are ordinary numbers of f32.
inline constexpr float kSmallestEntropyStep = 0x1p-64f;
inline constexpr float kLargestEntropyStep = 0x1p64f;
// More columns than any code has; their granules' lengths fit their field.
inline constexpr std::int64_t kLargestEntropyRank = 65536;
// Largest rank of a plan in this codec: one granule fits into a frame whatever its numbers.
inline constexpr std::int64_t kMaxEntropyRank = 4096;

// Views; the first r columns of what was fitted are the tables of rank r.
struct EntropyTables {
  absl::Span<const float> steps;               // [rank], >= 0
  absl::Span<const std::int32_t> frequencies;  // [rank, kEntropySymbols], row by row

  std::int64_t rank() const { return static_cast<std::int64_t>(steps.size()); }
};

// INVALID_ARGUMENT naming the column: a step that is neither 0 nor from kSmallestEntropyStep to
// kLargestEntropyStep, a frequency outside [0, 4096], a row of a sent column that does not sum to 4096 or in
// which the escape has none; rows of columns that are not sent are all zero. Also for spans of sizes that do
// not agree and for ranks outside 1 to kLargestEntropyRank.
absl::Status CheckEntropyTables(const EntropyTables& tables);

// Frequencies that sum to 4096 in proportion to `counts` [kEntropySymbols], each >= 0: nothing for what never
// occurred (it is escaped), at least 1 for what did and for the escape. Of all such frequencies, those with
// which `counts` cost least.
std::vector<std::int32_t> FitFrequencies(absl::Span<const std::int64_t> counts);

}  // namespace scd

#endif  // SCD_COMMON_CONFIG_ENTROPY_TABLES_H_
