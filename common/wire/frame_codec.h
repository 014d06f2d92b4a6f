// LayerCode <-> the frames of the wire. Frames are outside input: everything is checked before it is used.
#ifndef SCD_COMMON_WIRE_FRAME_CODEC_H_
#define SCD_COMMON_WIRE_FRAME_CODEC_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/layer_plan.h"
#include "common/wire/layer_code.h"
#include "scd/v1/codes.pb.h"

namespace scd {

inline constexpr std::int64_t kMaxFramePayloadBytes = 1 << 20;

// Splits by tokens so that no payload is over kMaxFramePayloadBytes, and adds checksums.
std::vector<v1::CodeFrame> ToFrames(LayerCode code);

// DATA_LOSS for a wrong checksum, INVALID_ARGUMENT for fields that contradict each other; takes the payload.
absl::StatusOr<LayerCode> FromFrame(v1::CodeFrame&& frame);

// Plan <-> proto. FromProto takes native ranges from elsewhere (they are not part of the wire plan).
v1::Plan PlanToProto(const LayerPlan& plan);
absl::StatusOr<LayerPlan> PlanFromProto(const v1::Plan& plan);

}  // namespace scd

#endif  // SCD_COMMON_WIRE_FRAME_CODEC_H_
