// One granule of the entropy codec (docs/formats.md): rANS over the symbols of its columns.
//
// Four states take the tokens of a column in turn and share one row of 16-bit words. The words stand from the
// front of the granule and its escapes from the back, so that neither needs a length.
#ifndef SCD_COMMON_WIRE_ENTROPY_GRANULE_H_
#define SCD_COMMON_WIRE_ENTROPY_GRANULE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/wire/entropy_columns.h"
#include "common/wire/entropy_quantiser.h"

namespace scd {

// Bytes of the states, which every granule has.
inline constexpr std::int64_t kGranuleStateBytes = 16;
// The most bytes of one number: a word, and an escape's five.
inline constexpr std::int64_t kLargestNumberBytes = 7;

// Both keep memory for granules of up to `most_tokens` tokens, and serve one thread.
class GranuleEncoder {
 public:
  GranuleEncoder(const EntropyColumns& columns, std::int64_t most_tokens);

  // Appends the granule of rows [num_tokens, rank], without its length. False as Quantise.
  bool Append(const float* rows, std::int64_t num_tokens, std::string& out);

 private:
  const EntropyColumns& columns_;
  GranuleSymbols symbols_;
  std::vector<std::uint16_t> words_;
  std::string escapes_;
};

class GranuleDecoder {
 public:
  GranuleDecoder(const EntropyColumns& columns, std::int64_t most_tokens);

  // -> rows [num_tokens, rank]. False, with rows unspecified, for anything that no GranuleEncoder with these
  // columns writes for that many tokens.
  bool Decode(absl::string_view granule, std::int64_t num_tokens, float* rows);

 private:
  const EntropyColumns& columns_;
  GranuleSymbols symbols_;
  std::string granule_;
  // Place in the rows, and q.
  std::vector<std::pair<std::size_t, std::int32_t>> escapes_;
};

}  // namespace scd

#endif  // SCD_COMMON_WIRE_ENTROPY_GRANULE_H_
