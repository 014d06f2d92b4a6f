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
// Largest rank: one granule's codes fit into a frame in every codec (32 tokens of int8 K with their scales).
inline constexpr std::int64_t kMaxCodeRank = kMaxFramePayloadBytes / 36;
// Layers that a plan of the wire may have; far above any model.
inline constexpr int kMaxPlanLayers = 1024;

// XXH3-64 of the payload, seeded with XXH3-64 of the other fields (docs/formats.md).
std::uint64_t FrameChecksum(const v1::CodeFrame& frame);

// Splits by tokens so that no payload is over kMaxFramePayloadBytes, and adds checksums. `code` is a valid
// one: its payload holds [num_tokens, rank], its rank is at most kMaxCodeRank.
std::vector<v1::CodeFrame> ToFrames(LayerCode code);

// Takes the payload. DATA_LOSS for a wrong checksum or a number that is not finite, INVALID_ARGUMENT for
// fields that are out of range, unknown or contradict each other; each names layer, kind and first token.
// What is returned has at least one token and one column, positions in int32, and exactly the payload that it
// says.
absl::StatusOr<LayerCode> FromFrame(v1::CodeFrame&& frame);

// INVALID_ARGUMENT for a number that is no codec: "codec: 77 is none that this program knows".
absl::StatusOr<Codec> CodecFromProto(v1::Codec codec);

// Plan <-> proto. PlanFromProto leaves native ranges alone (they are not part of the wire plan) and refuses,
// with INVALID_ARGUMENT and the field, what no bundle could serve; what this bundle can is for
// Bundle::CheckPlan.
v1::Plan PlanToProto(const LayerPlan& plan);
absl::StatusOr<LayerPlan> PlanFromProto(const v1::Plan& plan);

}  // namespace scd

#endif  // SCD_COMMON_WIRE_FRAME_CODEC_H_
