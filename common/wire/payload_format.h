// How the numbers of a frame are written: the codecs of the wire and what a payload of each must hold.
//
// Today's codecs are plain numbers, so a codec is a dtype. One whose payloads have another size or need
// decoding adds its number in codes.proto and its case here; checks of everything else stay in the frame
// codec.
#ifndef SCD_COMMON_WIRE_PAYLOAD_FORMAT_H_
#define SCD_COMMON_WIRE_PAYLOAD_FORMAT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/dtype.h"
#include "scd/v1/codes.pb.h"

namespace scd {

// INVALID_ARGUMENT for a codec that this program does not know.
absl::StatusOr<DType> DTypeOfCodec(v1::Codec codec);
// CODEC_UNSPECIFIED for a dtype that no codec writes.
v1::Codec CodecOfDType(DType dtype);

// num_tokens and rank are at least 1 and at most 2^31. INVALID_ARGUMENT for another size than they give;
// DATA_LOSS where a number is not finite: it would spread through the rebuilt cache.
absl::Status CheckPayload(DType dtype, std::int64_t num_tokens, std::int64_t rank, absl::string_view payload);

}  // namespace scd

#endif  // SCD_COMMON_WIRE_PAYLOAD_FORMAT_H_
