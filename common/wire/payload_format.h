// What the payload of a code must hold, codec by codec.
//
// A payload is a row of granules: runs of consecutive tokens that can be read without the others. Plain
// numbers and integers grouped by columns have granules of one token; integer K is grouped by tokens, so its
// granules are as long as a group, counted from the payload's first token, and the last one may be shorter.
//
// A codec whose payloads have another size adds its number in codes.proto, its name in the frame codec and
// its rules here; every other check stays as it is.
#ifndef SCD_COMMON_WIRE_PAYLOAD_FORMAT_H_
#define SCD_COMMON_WIRE_PAYLOAD_FORMAT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/config/codec.h"
#include "common/config/layer_plan.h"
#include "kernels/dtype.h"

namespace scd {

// The type that numbers have on their way between payload and device: f32 for integers, which are made and
// read on the host.
DType StagingDType(Codec codec);

// Tokens of one granule.
std::int64_t GranuleTokens(Codec codec, CodeKind kind);

// Bytes that num_tokens >= 0 tokens at rank >= 1 take from a payload's start on. Both are at most 2^31 and
// their product is under 2^58.
std::int64_t PayloadBytes(Codec codec, CodeKind kind, std::int64_t num_tokens, std::int64_t rank);

// num_tokens and rank are at least 1 and at most 2^31. INVALID_ARGUMENT for another size than they give;
// DATA_LOSS where a number (or a scale or minimum) is not finite: it would spread through the rebuilt cache.
absl::Status CheckPayload(Codec codec, CodeKind kind, std::int64_t num_tokens, std::int64_t rank,
                          absl::string_view payload);

}  // namespace scd

#endif  // SCD_COMMON_WIRE_PAYLOAD_FORMAT_H_
