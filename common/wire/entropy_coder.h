// The entropy codec (docs/formats.md): numbers of one layer and kind <-> the payload of a code.
//
// A payload is a row of granules of kEntropyGranule tokens (counted from its first token; the last may be
// shorter), each with its length in front, so that granules can be found, stored and read without the tables
// and without the others. A granule holds interleaved rANS streams with one static table for each column, and
// the exact values of its escapes.
//
// Bytes come from outside: decoding is bounded by the size of the payload and of the output whatever they
// hold.
#ifndef SCD_COMMON_WIRE_ENTROPY_CODER_H_
#define SCD_COMMON_WIRE_ENTROPY_CODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/config/entropy_tables.h"

namespace scd {

inline constexpr std::int64_t kEntropyGranule = 32;

// Where the granules of a payload begin, from their lengths alone: num_tokens tokens' worth, and the
// payload's end behind them. INVALID_ARGUMENT where lengths and payload do not agree.
absl::StatusOr<std::vector<std::size_t>> EntropyGranules(absl::string_view payload, std::int64_t num_tokens);

// The most bytes that `num_tokens` tokens at this rank can take, whatever the numbers.
std::int64_t LargestEntropyPayload(std::int64_t num_tokens, std::int64_t rank);

// Immutable and thread-safe.
class EntropyCoder {
 public:
  // Keeps its own copy of what it needs. INVALID_ARGUMENT as CheckEntropyTables.
  static absl::StatusOr<std::unique_ptr<EntropyCoder>> Create(const EntropyTables& tables);
  ~EntropyCoder();

  std::int64_t rank() const;

  // rows [num_tokens, rank] f32, num_tokens >= 1. OUT_OF_RANGE for a number that is not finite or too large
  // for its column's step (|q| over 2^30).
  absl::StatusOr<std::string> Encode(const float* rows, std::int64_t num_tokens) const;

  // Tokens [begin, begin + count) of a payload of num_tokens tokens -> out [count, rank] f32. begin is a
  // multiple of kEntropyGranule, begin + count one or num_tokens. DATA_LOSS for a payload that Encode cannot
  // have written with these tables; `out` is then unspecified.
  absl::Status Decode(absl::string_view payload, std::int64_t num_tokens, std::int64_t begin,
                      std::int64_t count, float* out) const;

 private:
  class Impl;
  explicit EntropyCoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace scd

#endif  // SCD_COMMON_WIRE_ENTROPY_CODER_H_
