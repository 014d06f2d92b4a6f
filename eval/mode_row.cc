#include "eval/mode_row.h"

#include <utility>

namespace scd {
namespace {

constexpr char kPublished[] = "published";
constexpr char kEqual[] = "equal";
constexpr std::int64_t kEqualHead = 1;
constexpr std::int64_t kEqualTail = 16;

// A way of the table and the first positions that it was published with as native.
struct Way {
  const char* name;
  const char* mode;
  std::optional<Codec> codec;
  std::int64_t published_head;
};

const Way kWays[] = {
    {"raw", "raw", std::nullopt, 0},
    {"raw, re-roped", "raw_rerope", std::nullopt, 0},
    {"4 bits", "quantized", Codec::kInt4, 0},
    {"4 bits, re-roped", "quantized_rerope", Codec::kInt4, 0},
    {"8 bits, re-roped", "quantized_rerope", Codec::kInt8, 0},
    {"selective", "selective", std::nullopt, 1},
    {"reuse", "reuse", std::nullopt, 1},
    {"scd", "scd", std::nullopt, 1},
    {"fused", "fused", std::nullopt, 1},
};

// Of a row that names none: what the bundle takes for its mode.
Codec OwnCodec(const TransferSpec& spec) {
  return spec.mode == "fused" ? Codec::kEntropy : Codec::kBF16;
}

ModeRow RowOf(const Way& way, const char* group, std::int64_t head, std::int64_t tail) {
  ModeRow row{.name = way.name, .group = group, .spec = {}};
  row.spec.mode = way.mode;
  row.spec.codec = way.codec;
  row.spec.native_head = head;
  row.spec.native_tail = tail;
  return row;
}

}  // namespace

std::vector<ModeRow> DefaultRows() {
  std::vector<ModeRow> rows = {{.name = "local", .group = kPublished, .spec = {}}};
  for (const Way& way : kWays) rows.push_back(RowOf(way, kPublished, way.published_head, 0));
  for (const Way& way : kWays) rows.push_back(RowOf(way, kEqual, kEqualHead, kEqualTail));
  return rows;
}

std::vector<ModeRow> RepeatForCodecs(const std::vector<ModeRow>& rows, const std::vector<Codec>& codecs) {
  std::vector<ModeRow> out;
  for (const ModeRow& row : rows) {
    if (!row.spec.sends_codes() || row.spec.codec || codecs.empty()) {
      out.push_back(row);
      continue;
    }
    for (const Codec codec : codecs) {
      ModeRow repeated = row;
      repeated.spec.codec = codec;
      if (codec != OwnCodec(row.spec)) repeated.name.append(", ").append(CodecName(codec));
      out.push_back(std::move(repeated));
    }
  }
  return out;
}

std::string ContradictionIn(const TransferSpec& spec) {
  if (spec.mode != "scd" && spec.mode != "reuse" && (spec.rank_k || spec.rank_v)) {
    return "rank_k and rank_v are for scd and reuse";
  }
  if (spec.mode != "scd" && (spec.rank_h || spec.patch_layers)) return "rank_h and patch_layers are for scd";
  if (spec.mode != "selective" && spec.recompute_layers) return "recompute_layers is for selective";
  if (spec.is_local() && (spec.codec || spec.native_head != 0 || spec.native_tail != 0)) {
    return "local transfers nothing: it has no codec and no native ranges";
  }
  if (spec.is_quantized() && spec.codec && !IsQuantized(*spec.codec)) {
    return "a quantized mode needs codec int4 or int8";
  }
  const PlanRequest request = PlanRequestOf(spec);
  const bool may_be_entropy = request.codec ? request.codec == Codec::kEntropy : spec.mode == "fused";
  if (spec.distortion && (!spec.sends_codes() || !may_be_entropy)) return "distortion is for codec entropy";
  return std::string(CheckModeRequest(spec.mode, request).message());
}

PlanRequest PlanRequestOf(const TransferSpec& spec) {
  PlanRequest request = PlanRequestFor(spec.mode, {});
  Overlay({.rank_k = spec.rank_k,
           .rank_v = spec.rank_v,
           .rank_h = spec.rank_h,
           .patch_layers = spec.patch_layers,
           .recompute_layers = spec.recompute_layers,
           .native_head = spec.native_head,
           .native_tail = spec.native_tail,
           .codec = spec.codec,
           .distortion = spec.distortion},
          &request);
  if (!request.codec && spec.mode != "fused") request.codec = Codec::kBF16;
  return request;
}

}  // namespace scd
