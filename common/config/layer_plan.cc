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

}  // namespace

std::string_view CodeKindName(CodeKind kind) {
  switch (kind) {
    case CodeKind::kK:
      return "k";
    case CodeKind::kV:
      return "v";
    case CodeKind::kH:
      return "h";
  }
  return "unknown";
}

std::int64_t LayerPlan::code_bytes_per_token() const {
  std::int64_t numbers = 0;
  for (const LayerRanks& layer : layers) {
    numbers += layer.treatment == LayerTreatment::kPatch ? layer.rank_h : layer.rank_k + layer.rank_v;
  }
  return numbers * static_cast<std::int64_t>(DTypeBytes(code_dtype));
}

std::vector<std::int64_t> LayerPlan::patch_layers() const {
  std::vector<std::int64_t> patched;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].treatment == LayerTreatment::kPatch) patched.push_back(static_cast<std::int64_t>(i));
  }
  return patched;
}

std::string LayerPlan::ToString() const {
  std::vector<std::int64_t> ranks_k, ranks_v, ranks_h;
  for (const LayerRanks& layer : layers) {
    if (layer.treatment == LayerTreatment::kPatch) {
      ranks_h.push_back(layer.rank_h);
    } else {
      ranks_k.push_back(layer.rank_k);
      ranks_v.push_back(layer.rank_v);
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
  absl::StrAppend(&text, "native head ", native_head, ", tail ", native_tail, ", ",
                  std::string(DTypeName(code_dtype)));
  return text;
}

}  // namespace scd
