#include "common/config/layer_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace scd {
namespace {

// "96", or "64-96" where layers differ.
std::string RankRange(const std::vector<std::int64_t>& ranks) {
  const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end());
  return *least == *most ? absl::StrCat(*least) : absl::StrCat(*least, "-", *most);
}

std::string Layers(std::size_t count) {
  return absl::StrCat(count, count == 1 ? " layer" : " layers");
}

std::vector<std::int64_t> LayersTreated(const LayerPlan& plan, LayerTreatment treatment) {
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    if (plan.layers[i].treatment == treatment) found.push_back(static_cast<std::int64_t>(i));
  }
  return found;
}

// Bytes of one token's numbers, and of its share of the scales where groups go over tokens.
double RowBytes(Codec codec, const SentKind& sent) {
  const std::int64_t numbers = (sent.rank * CodecBits(codec) + 7) / 8;
  if (!IsQuantized(codec)) return static_cast<double>(numbers);
  const double groups = sent.kind == CodeKind::kK
                            ? static_cast<double>(sent.rank) / static_cast<double>(kQuantGroup)
                            : static_cast<double>((sent.rank + kQuantGroup - 1) / kQuantGroup);
  return static_cast<double>(numbers) + groups * static_cast<double>(kQuantGroupHeaderBytes);
}

}  // namespace

std::string_view CodeKindName(CodeKind kind) {
  switch (kind) {
    case CodeKind::kK:
      return "k";
    case CodeKind::kV:
      return "v";
    case CodeKind::kH:
      return "h";
    case CodeKind::kResidual:
      return "residual";
    case CodeKind::kKV:
      return "kv";
  }
  return "unknown";
}

std::vector<SentKind> SentKinds(const LayerRanks& ranks) {
  std::vector<SentKind> sent;
  for (const SentKind& kind :
       {SentKind{CodeKind::kK, ranks.rank_k}, SentKind{CodeKind::kV, ranks.rank_v},
        SentKind{CodeKind::kH, ranks.rank_h}, SentKind{CodeKind::kResidual, ranks.residual},
        SentKind{CodeKind::kKV, ranks.rank_kv}}) {
    if (kind.rank > 0) sent.push_back(kind);
  }
  return sent;
}

double LayerPlan::code_bytes_per_token() const {
  double bytes = 0;
  for (const LayerRanks& layer : layers) {
    for (const SentKind& sent : SentKinds(layer)) bytes += RowBytes(codec, sent);
  }
  return bytes;
}

std::vector<std::int64_t> LayerPlan::patch_layers() const {
  return LayersTreated(*this, LayerTreatment::kPatch);
}

std::optional<LayerRange> LayerPlan::recomputed() const {
  const std::vector<std::int64_t> group = LayersTreated(*this, LayerTreatment::kRecompute);
  if (group.empty()) return std::nullopt;
  return LayerRange{group.front(), group.back()};
}

LayerRange LayerPlan::CodeLayers(std::int64_t layer) const {
  LayerRange range{.first = layer, .last = layer};
  if (layers[static_cast<std::size_t>(layer)].treatment != LayerTreatment::kFused) return range;
  while (range.first > 0 && CodeComesLater(range.first - 1)) --range.first;
  return range;
}

std::string LayerPlan::ToString() const {
  std::vector<std::int64_t> ranks_k, ranks_v, ranks_h, ranks_kv;
  std::size_t num_fused = 0;
  for (const LayerRanks& layer : layers) {
    if (layer.treatment == LayerTreatment::kPatch) {
      ranks_h.push_back(layer.rank_h);
    } else if (layer.treatment == LayerTreatment::kReuse) {
      ranks_k.push_back(layer.rank_k);
      ranks_v.push_back(layer.rank_v);
    } else if (layer.treatment == LayerTreatment::kFused) {
      ++num_fused;
      if (layer.rank_kv > 0) ranks_kv.push_back(layer.rank_kv);
    }
  }
  std::string text;
  if (!ranks_k.empty()) {
    absl::StrAppend(&text, "reuse ", Layers(ranks_k.size()), " at K ", RankRange(ranks_k), " / V ",
                    RankRange(ranks_v), ", ");
  }
  if (!ranks_h.empty()) {
    absl::StrAppend(&text, "patch ", Layers(ranks_h.size()), " [", absl::StrJoin(patch_layers(), " "),
                    "] at H ", RankRange(ranks_h), ", ");
  }
  if (!ranks_kv.empty()) {
    absl::StrAppend(&text, "fused ", Layers(num_fused), " in ", ranks_kv.size(),
                    ranks_kv.size() == 1 ? " group" : " groups", " at KV ", RankRange(ranks_kv), ", ");
  }
  for (const auto& [treatment, name] :
       {std::pair{LayerTreatment::kRaw, "raw "}, {LayerTreatment::kRawRoped, "raw roped "}}) {
    const std::size_t count = LayersTreated(*this, treatment).size();
    if (count > 0) absl::StrAppend(&text, name, Layers(count), ", ");
  }
  if (const auto group = recomputed()) {
    absl::StrAppend(&text, "recompute layers ", group->first, " to ", group->last, ", ");
  }
  absl::StrAppend(&text, "native head ", native_head, ", tail ", native_tail, ", ",
                  std::string(CodecName(codec)));
  if (codec == Codec::kEntropy) absl::StrAppend(&text, " at rate point ", rate_point);
  return text;
}

}  // namespace scd
