// Which plans a bundle can serve.
#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/bundle/bundle.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

absl::Status Bad(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

absl::Status CheckReuseRank(absl::string_view field, std::int64_t rank, std::int64_t largest) {
  if (rank < 1) return Bad(field, absl::StrCat(rank, " is under 1; this bundle's largest is ", largest));
  if (rank > largest) return Bad(field, absl::StrCat(rank, " is over this bundle's largest, ", largest));
  return absl::OkStatus();
}

// The aligners of Patch are fitted rank by rank.
absl::Status CheckPatchRank(absl::string_view field, std::int64_t rank,
                            const std::vector<std::int64_t>& fitted) {
  if (std::find(fitted.begin(), fitted.end(), rank) != fitted.end()) return absl::OkStatus();
  if (fitted.empty()) return Bad(field, absl::StrCat(rank, " given, but this bundle has no Patch layers"));
  if (rank > fitted.back()) {
    return Bad(field, absl::StrCat(rank, " is over this bundle's largest, ", fitted.back()));
  }
  return Bad(field, absl::StrCat(rank, " is not among the ranks that this bundle was fitted for: ",
                                 absl::StrJoin(fitted, ", ")));
}

absl::Status CheckPatchLayer(absl::string_view field, std::int64_t layer,
                             const std::vector<std::int64_t>& candidates) {
  if (std::find(candidates.begin(), candidates.end(), layer) != candidates.end()) return absl::OkStatus();
  if (candidates.empty()) {
    return Bad(field, absl::StrCat("layer ", layer, " given, but this bundle can patch no layer"));
  }
  std::vector<std::int64_t> sorted = candidates;
  std::sort(sorted.begin(), sorted.end());
  return Bad(field, absl::StrCat("layer ", layer,
                                 " is none that this bundle can patch: ", absl::StrJoin(sorted, ", ")));
}

absl::Status CheckNative(absl::string_view field, std::int64_t positions) {
  if (positions >= 0 && positions <= kMaxNativePositions) return absl::OkStatus();
  return Bad(field, absl::StrCat(positions, " is outside [0, ", kMaxNativePositions, "]"));
}

absl::Status CheckCodeDType(DType dtype) {
  if (dtype == DType::kBF16 || dtype == DType::kF32) return absl::OkStatus();
  return Bad("plan.code_dtype",
             absl::StrCat(std::string(DTypeName(dtype)), " is not among the types of codes: bf16, f32"));
}

// A rank that its layer's treatment does not use is zero, so that equal plans are equal values.
absl::Status CheckUnused(std::initializer_list<std::pair<absl::string_view, std::int64_t>> ranks) {
  for (const auto& [field, rank] : ranks) {
    if (rank != 0)
      return Bad(field, absl::StrCat(rank, " given, but this layer's treatment has no such codes"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LayerPlan> Bundle::ResolvePlan(const PlanRequest& request) const {
  const BundleManifest& m = manifest_;
  const std::int64_t rank_k = request.rank_k.value_or(m.default_rank_k);
  const std::int64_t rank_v = request.rank_v.value_or(m.default_rank_v);
  const std::int64_t rank_h = request.rank_h.value_or(m.default_rank_h);
  SCD_RETURN_IF_ERROR(CheckReuseRank("plan.rank_k", rank_k, m.max_rank_k));
  SCD_RETURN_IF_ERROR(CheckReuseRank("plan.rank_v", rank_v, m.max_rank_v));
  if (request.rank_h) SCD_RETURN_IF_ERROR(CheckPatchRank("plan.rank_h", rank_h, m.ranks_h));

  LayerPlan plan;
  plan.layers.assign(static_cast<std::size_t>(m.num_layers),
                     LayerRanks{.treatment = LayerTreatment::kReuse, .rank_k = rank_k, .rank_v = rank_v});
  std::set<std::int64_t> patched;
  for (const std::int64_t layer : request.patch_layers.value_or(m.default_patch_layers)) {
    SCD_RETURN_IF_ERROR(CheckPatchLayer("plan.patch_layers", layer, m.candidate_layers));
    if (!patched.insert(layer).second) {
      return Bad("plan.patch_layers", absl::StrCat("layer ", layer, " stands twice"));
    }
    plan.layers[static_cast<std::size_t>(layer)] =
        LayerRanks{.treatment = LayerTreatment::kPatch, .rank_h = rank_h};
  }
  plan.native_head = request.native_head.value_or(m.native_head);
  plan.native_tail = request.native_tail.value_or(m.native_tail);
  SCD_RETURN_IF_ERROR(CheckNative("plan.native_head", plan.native_head));
  SCD_RETURN_IF_ERROR(CheckNative("plan.native_tail", plan.native_tail));
  plan.code_dtype = request.code_dtype.value_or(DType::kBF16);
  SCD_RETURN_IF_ERROR(CheckCodeDType(plan.code_dtype));
  return plan;
}

absl::Status Bundle::CheckPlan(const LayerPlan& plan) const {
  const BundleManifest& m = manifest_;
  if (static_cast<std::int64_t>(plan.layers.size()) != m.num_layers) {
    return Bad("plan.layers",
               absl::StrCat("has ", plan.layers.size(), " entries, this bundle ", m.num_layers, " layers"));
  }
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerRanks& layer = plan.layers[i];
    const std::string field = absl::StrCat("plan.layers[", i, "]");
    const std::string k = absl::StrCat(field, ".rank_k"), v = absl::StrCat(field, ".rank_v"),
                      h = absl::StrCat(field, ".rank_h");
    if (layer.treatment == LayerTreatment::kPatch) {
      SCD_RETURN_IF_ERROR(CheckPatchLayer(field, static_cast<std::int64_t>(i), m.candidate_layers));
      SCD_RETURN_IF_ERROR(CheckPatchRank(h, layer.rank_h, m.ranks_h));
      SCD_RETURN_IF_ERROR(CheckUnused({{k, layer.rank_k}, {v, layer.rank_v}}));
    } else {
      SCD_RETURN_IF_ERROR(CheckReuseRank(k, layer.rank_k, m.max_rank_k));
      SCD_RETURN_IF_ERROR(CheckReuseRank(v, layer.rank_v, m.max_rank_v));
      SCD_RETURN_IF_ERROR(CheckUnused({{h, layer.rank_h}}));
    }
  }
  SCD_RETURN_IF_ERROR(CheckNative("plan.native_head", plan.native_head));
  SCD_RETURN_IF_ERROR(CheckNative("plan.native_tail", plan.native_tail));
  return CheckCodeDType(plan.code_dtype);
}

}  // namespace scd
