// What the payload of a code must hold, codec by codec.
//
// A payload is a row of granules: runs of consecutive tokens that can be read without the others. Plain
// numbers and integers grouped by columns have granules of one token; integer K is grouped by tokens, entropy
// coded numbers are coded together, and codes of K and V together are rebuilt together, so their granules
// have kQuantGroup (kEntropyGranule, kFusedGranule) tokens, counted from the payload's first one, and the
// last granule may be shorter.
#ifndef SCD_COMMON_WIRE_PAYLOAD_FORMAT_H_
#define SCD_COMMON_WIRE_PAYLOAD_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/config/codec.h"
#include "common/config/layer_plan.h"
#include "common/wire/layer_code.h"
#include "kernels/dtype.h"

namespace scd {

// The type that numbers have on their way between payload and device: f32 for integers, which are made and
// read on the host.
DType StagingDType(Codec codec);

// Tokens of one granule.
std::int64_t GranuleTokens(Codec codec, CodeKind kind);

// Where a code of positions [begin, end) stops first, so that granules end at multiples of their tokens
// wherever codes begin: then those of one request fit any other.
std::int64_t EndOfCode(Codec codec, CodeKind kind, std::int64_t begin, std::int64_t end);

// Tokens whose numbers share a scale and a minimum: 1, or kQuantGroup.
std::int64_t GroupTokens(Codec codec, CodeKind kind);

// Of codecs of fixed size: bytes that num_tokens >= 0 tokens at rank >= 1 take from a payload's start on.
// Both are at most 2^31 and their product is under 2^58.
std::int64_t PayloadBytes(Codec codec, CodeKind kind, std::int64_t num_tokens, std::int64_t rank);

// num_tokens and rank are at least 1 and at most 2^31. INVALID_ARGUMENT for another size than they give (of
// entropy: another number of granules, or more bytes than numbers can take); DATA_LOSS where a number (or a
// scale or minimum) is not finite: it would spread through the rebuilt cache. What is entropy coded is looked
// at when it is decoded.
absl::Status CheckPayload(Codec codec, CodeKind kind, std::int64_t num_tokens, std::int64_t rank,
                          absl::string_view payload);

// Where the payload of a code, which CheckPayload accepts, may be cut.
class PayloadCuts {
 public:
  explicit PayloadCuts(const LayerCode& code);

  // Bytes of the first `tokens` tokens: whole granules, or all that the code has.
  std::size_t BytesBefore(std::int64_t tokens) const;

 private:
  const Codec codec_;
  const CodeKind kind_;
  const std::int64_t rank_;
  std::vector<std::size_t> granules_;  // where they begin, and the end; of codecs without fixed size
};

}  // namespace scd

#endif  // SCD_COMMON_WIRE_PAYLOAD_FORMAT_H_
