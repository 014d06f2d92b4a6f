// What the payload of a code must hold, codec by codec.
//
// Today's codecs are plain numbers, so a codec is a dtype. One whose payloads have another size or need
// decoding adds its number in codes.proto, its name in the frame codec and its rules here; every other check
// stays as it is.
#ifndef SCD_COMMON_WIRE_PAYLOAD_FORMAT_H_
#define SCD_COMMON_WIRE_PAYLOAD_FORMAT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/dtype.h"

namespace scd {

// num_tokens and rank are at least 1 and at most 2^31. INVALID_ARGUMENT for another size than they give;
// DATA_LOSS where a number is not finite: it would spread through the rebuilt cache.
absl::Status CheckPayload(DType dtype, std::int64_t num_tokens, std::int64_t rank, absl::string_view payload);

}  // namespace scd

#endif  // SCD_COMMON_WIRE_PAYLOAD_FORMAT_H_
