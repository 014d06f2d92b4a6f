#include "common/wire/frame_codec.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/io/digest.h"
#include "common/wire/payload_format.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Positions are int32 on devices.
constexpr std::int64_t kMaxPosition = std::numeric_limits<std::int32_t>::max();

std::string Where(const v1::CodeFrame& frame) {
  return absl::StrCat("frame (layer ", frame.layer(), ", kind ", static_cast<int>(frame.kind()),
                      ", first token ", frame.first_token(), "): ");
}

absl::StatusOr<CodeKind> KindOf(v1::CodeKind kind) {
  switch (kind) {
    case v1::CODE_KIND_K:
      return CodeKind::kK;
    case v1::CODE_KIND_V:
      return CodeKind::kV;
    case v1::CODE_KIND_H:
      return CodeKind::kH;
    case v1::CODE_KIND_RESIDUAL:
      return CodeKind::kResidual;
    case v1::CODE_KIND_KV:
      return CodeKind::kKV;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("kind: ", static_cast<int>(kind), " is none that this program knows"));
  }
}

absl::Status InRange(absl::string_view field, std::int64_t value, std::int64_t min, std::int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, " is outside [", min, ", ", max, "]"));
}

// Everything but the payload's numbers, which are looked at last.
absl::StatusOr<LayerCode> ReadFields(const v1::CodeFrame& frame) {
  if (frame.payload().size() > static_cast<std::size_t>(kMaxFramePayloadBytes)) {
    return absl::InvalidArgumentError(absl::StrCat("payload: has ", frame.payload().size(),
                                                   " bytes, more than the ", kMaxFramePayloadBytes,
                                                   " of a frame"));
  }
  if (FrameChecksum(frame) != frame.checksum()) {
    return absl::DataLossError("checksum: is not that of the frame's content");
  }
  LayerCode code;
  code.layer = frame.layer();
  SCD_ASSIGN_OR_RETURN(code.kind, KindOf(frame.kind()));
  code.first_token = frame.first_token();
  code.num_tokens = frame.num_tokens();
  SCD_RETURN_IF_ERROR(InRange("first_token", code.first_token, 0, kMaxPosition));
  SCD_RETURN_IF_ERROR(InRange("num_tokens", code.num_tokens, 1, kMaxPosition - code.first_token));
  code.rank = frame.rank();
  SCD_RETURN_IF_ERROR(InRange("rank", code.rank, 1, kMaxCodeRank));
  SCD_ASSIGN_OR_RETURN(code.codec, CodecFromProto(frame.codec()));
  SCD_RETURN_IF_ERROR(CheckPayload(code.codec, code.kind, code.num_tokens, code.rank, frame.payload()));
  return code;
}

absl::StatusOr<LayerTreatment> TreatmentOf(v1::Treatment treatment) {
  switch (treatment) {
    case v1::TREATMENT_REUSE:
      return LayerTreatment::kReuse;
    case v1::TREATMENT_PATCH:
      return LayerTreatment::kPatch;
    case v1::TREATMENT_RAW:
      return LayerTreatment::kRaw;
    case v1::TREATMENT_RAW_ROPED:
      return LayerTreatment::kRawRoped;
    case v1::TREATMENT_RECOMPUTE:
      return LayerTreatment::kRecompute;
    case v1::TREATMENT_FUSED:
      return LayerTreatment::kFused;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("treatment: ", static_cast<int>(treatment), " is none that this program knows"));
  }
}

v1::Treatment ToProto(LayerTreatment treatment) {
  switch (treatment) {
    case LayerTreatment::kReuse:
      return v1::TREATMENT_REUSE;
    case LayerTreatment::kPatch:
      return v1::TREATMENT_PATCH;
    case LayerTreatment::kRaw:
      return v1::TREATMENT_RAW;
    case LayerTreatment::kRawRoped:
      return v1::TREATMENT_RAW_ROPED;
    case LayerTreatment::kRecompute:
      return v1::TREATMENT_RECOMPUTE;
    case LayerTreatment::kFused:
      return v1::TREATMENT_FUSED;
  }
  return v1::TREATMENT_UNSPECIFIED;
}

absl::StatusOr<LayerRanks> RanksOf(const v1::LayerRanks& ranks, absl::string_view field) {
  const auto treatment = TreatmentOf(ranks.treatment());
  if (!treatment.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".", treatment.status().message()));
  }
  const auto check = [&](absl::string_view name, std::int64_t rank, std::int64_t least, bool used) {
    return InRange(absl::StrCat(field, ".", name), rank, used ? least : 0, used ? kMaxCodeRank : 0);
  };
  const bool patch = *treatment == LayerTreatment::kPatch;
  const bool recompute = *treatment == LayerTreatment::kRecompute;
  const bool fused = *treatment == LayerTreatment::kFused;
  const bool k_and_v = !patch && !recompute && !fused;
  SCD_RETURN_IF_ERROR(check("rank_k", ranks.rank_k(), 1, k_and_v));
  SCD_RETURN_IF_ERROR(check("rank_v", ranks.rank_v(), 1, k_and_v));
  SCD_RETURN_IF_ERROR(check("rank_h", ranks.rank_h(), 1, patch));
  SCD_RETURN_IF_ERROR(check("residual", ranks.residual(), 0, recompute));
  SCD_RETURN_IF_ERROR(check("rank_kv", ranks.rank_kv(), 0, fused));
  return LayerRanks{.treatment = *treatment,
                    .rank_k = ranks.rank_k(),
                    .rank_v = ranks.rank_v(),
                    .rank_h = ranks.rank_h(),
                    .residual = ranks.residual(),
                    .rank_kv = ranks.rank_kv()};
}

// Tokens from `begin` on that one frame holds: the most whole granules that fit.
std::int64_t FrameTokens(const LayerCode& code, const PayloadCuts& cuts, std::int64_t begin) {
  const std::int64_t granule = GranuleTokens(code.codec, code.kind);
  const std::size_t offset = cuts.BytesBefore(begin);
  if (code.payload.size() - offset <= static_cast<std::size_t>(kMaxFramePayloadBytes)) {
    return code.num_tokens - begin;
  }
  std::int64_t end = std::min(code.num_tokens, begin + granule);
  while (end < code.num_tokens) {
    const std::int64_t next = std::min(code.num_tokens, end + granule);
    if (cuts.BytesBefore(next) - offset > static_cast<std::size_t>(kMaxFramePayloadBytes)) break;
    end = next;
  }
  return end - begin;
}

}  // namespace

absl::StatusOr<Codec> CodecFromProto(v1::Codec codec) {
  switch (codec) {
    case v1::CODEC_BF16:
    case v1::CODEC_F32:
    case v1::CODEC_INT8:
    case v1::CODEC_INT4:
    case v1::CODEC_ENTROPY:
      return static_cast<Codec>(codec);  // one numbering, see Codec
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("codec: ", static_cast<int>(codec), " is none that this program knows"));
  }
}

std::uint64_t FrameChecksum(const v1::CodeFrame& frame) {
  const std::array<std::uint32_t, 6> fields = {
      frame.layer(), static_cast<std::uint32_t>(frame.kind()), frame.first_token(), frame.num_tokens(),
      frame.rank(),  static_cast<std::uint32_t>(frame.codec())};
  std::array<std::byte, sizeof(fields)> header;
  for (std::size_t i = 0; i < header.size(); ++i) {
    header[i] = static_cast<std::byte>(fields[i / 4] >> (8 * (i % 4)) & 0xFF);
  }
  const std::string& payload = frame.payload();
  return Checksum64({reinterpret_cast<const std::byte*>(payload.data()), payload.size()}, Checksum64(header));
}

std::vector<v1::CodeFrame> ToFrames(LayerCode code) {
  const PayloadCuts cuts(code);
  std::vector<v1::CodeFrame> frames;
  for (std::int64_t begin = 0, count = 0; begin < code.num_tokens; begin += count) {
    count = FrameTokens(code, cuts, begin);
    v1::CodeFrame& frame = frames.emplace_back();
    frame.set_layer(static_cast<std::uint32_t>(code.layer));
    frame.set_kind(static_cast<v1::CodeKind>(code.kind));  // one numbering, see CodeKind
    frame.set_first_token(static_cast<std::uint32_t>(code.first_token + begin));
    frame.set_num_tokens(static_cast<std::uint32_t>(count));
    frame.set_rank(static_cast<std::uint32_t>(code.rank));
    frame.set_codec(static_cast<v1::Codec>(code.codec));
    if (count == code.num_tokens) {
      frame.set_payload(std::move(code.payload));
    } else {
      const std::size_t offset = cuts.BytesBefore(begin);
      frame.set_payload(code.payload.data() + offset, cuts.BytesBefore(begin + count) - offset);
    }
    frame.set_checksum(FrameChecksum(frame));
  }
  return frames;
}

absl::StatusOr<LayerCode> FromFrame(v1::CodeFrame&& frame) {
  absl::StatusOr<LayerCode> code = ReadFields(frame);
  if (!code.ok()) {
    return absl::Status(code.status().code(), absl::StrCat(Where(frame), code.status().message()));
  }
  code->payload = std::move(*frame.mutable_payload());
  return code;
}

v1::Plan PlanToProto(const LayerPlan& plan) {
  v1::Plan proto;
  for (const LayerRanks& layer : plan.layers) {
    v1::LayerRanks& ranks = *proto.add_layers();
    ranks.set_treatment(ToProto(layer.treatment));
    ranks.set_rank_k(static_cast<std::uint32_t>(layer.rank_k));
    ranks.set_rank_v(static_cast<std::uint32_t>(layer.rank_v));
    ranks.set_rank_h(static_cast<std::uint32_t>(layer.rank_h));
    ranks.set_residual(static_cast<std::uint32_t>(layer.residual));
    ranks.set_rank_kv(static_cast<std::uint32_t>(layer.rank_kv));
  }
  proto.set_codec(static_cast<v1::Codec>(plan.codec));
  proto.set_rate_point(static_cast<std::uint32_t>(plan.rate_point));
  return proto;
}

absl::StatusOr<LayerPlan> PlanFromProto(const v1::Plan& proto) {
  LayerPlan plan;
  SCD_RETURN_IF_ERROR(InRange("plan.layers: number of entries", proto.layers_size(), 1, kMaxPlanLayers));
  for (int i = 0; i < proto.layers_size(); ++i) {
    SCD_ASSIGN_OR_RETURN(const LayerRanks ranks,
                         RanksOf(proto.layers(i), absl::StrCat("plan.layers[", i, "]")));
    plan.layers.push_back(ranks);
  }
  const auto codec = CodecFromProto(proto.codec());
  if (!codec.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("plan.", codec.status().message()));
  }
  plan.codec = *codec;
  plan.rate_point = proto.rate_point();
  return plan;
}

}  // namespace scd
