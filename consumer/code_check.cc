#include "consumer/code_check.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace scd {
namespace {

// Without the sign the bits of floats are ordered as their magnitudes are, with infinity and NaN at the end.
constexpr std::uint32_t kLimitF32 = std::bit_cast<std::uint32_t>(kMaxCodeMagnitude);
constexpr std::uint16_t kLimitBf16 = kLimitF32 >> 16;

// Index of the first element over the limit, or `count`. Whole blocks are looked at without a branch for each
// element.
template <typename Word>
std::int64_t FirstOver(const char* bytes, std::int64_t count, Word magnitude_mask, Word limit) {
  constexpr std::int64_t kBlock = 256;
  Word words[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t length = std::min(kBlock, count - begin);
    std::memcpy(words, bytes + static_cast<std::size_t>(begin) * sizeof(Word),
                static_cast<std::size_t>(length) * sizeof(Word));
    int over = 0;
    for (std::int64_t i = 0; i < length; ++i) over |= static_cast<Word>(words[i] & magnitude_mask) > limit;
    if (over == 0) continue;
    for (std::int64_t i = 0; i < length; ++i) {
      if (static_cast<Word>(words[i] & magnitude_mask) > limit) return begin + i;
    }
  }
  return count;
}

}  // namespace

absl::Status CheckCodeNumbers(const LayerCode& code) {
  // What an f16 scale and minimum can say is finite (the frame codec has looked) and far below the limit;
  // numbers on the grid of the bundle's steps are finite, and bounded when they are decoded.
  if (IsQuantized(code.codec) || code.codec == Codec::kEntropy) return absl::OkStatus();
  const std::int64_t count = code.num_tokens * code.rank;
  const std::int64_t bad = code.codec == Codec::kBF16
                               ? FirstOver<std::uint16_t>(code.payload.data(), count, 0x7fff, kLimitBf16)
                               : FirstOver<std::uint32_t>(code.payload.data(), count, 0x7fffffff, kLimitF32);
  if (bad == count) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("layer ", code.layer, " ", std::string(CodeKindName(code.kind)),
                                          " token ", code.first_token + bad / code.rank, " column ",
                                          bad % code.rank, ": the code is not finite or implausibly large"));
}

}  // namespace scd
