// Which plans a bundle can serve.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
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

absl::Status CheckCodec(Codec codec) {
  switch (codec) {
    case Codec::kBF16:
    case Codec::kF32:
    case Codec::kInt8:
    case Codec::kInt4:
    case Codec::kEntropy:
      return absl::OkStatus();
  }
  return Bad("plan.codec", absl::StrCat(static_cast<int>(codec),
                                        " is not among the codecs: bf16, f32, int8, int4, entropy"));
}

bool IsCode(LayerTreatment treatment) {
  return treatment == LayerTreatment::kReuse || treatment == LayerTreatment::kPatch ||
         treatment == LayerTreatment::kFused;
}

// Every column of the plan has tables at its rate point, or needs none.
absl::Status CheckRatePoint(const BundleManifest& m, const LayerPlan& plan) {
  if (plan.codec != Codec::kEntropy) {
    if (plan.rate_point == 0) return absl::OkStatus();
    return Bad("plan.rate_point", absl::StrCat(plan.rate_point, " given, but codec ",
                                               std::string(CodecName(plan.codec)), " has no rate points"));
  }
  if (!IsCode(plan.layers[0].treatment)) {
    return Bad("plan.codec",
               "entropy codes what translators make; raw state goes in bf16, f32, int8 or int4");
  }
  if (m.rate_points.empty()) {
    return Bad("plan.codec", "this bundle has no tables for entropy: fit it again with entropy.distortions");
  }
  for (const LayerRanks& layer : plan.layers) {
    for (const SentKind& sent : SentKinds(layer)) {
      if (sent.rank > kMaxEntropyRank) {
        return Bad("plan.codec",
                   absl::StrCat("entropy takes ranks of at most ", kMaxEntropyRank, ", not ", sent.rank));
      }
    }
  }
  const auto count = static_cast<std::int64_t>(m.rate_points.size());
  if (plan.rate_point >= 0 && plan.rate_point < count) return absl::OkStatus();
  return Bad("plan.rate_point", absl::StrCat(plan.rate_point, " is outside [0, ", count - 1, "]"));
}

// The rate point with this distortion, which may come with the six digits that messages show.
absl::StatusOr<std::int64_t> RatePointOf(const BundleManifest& m, double distortion) {
  const auto found = std::find_if(m.rate_points.begin(), m.rate_points.end(), [&](const RatePoint& point) {
    return std::abs(point.distortion - distortion) <= 1e-5 * point.distortion;
  });
  if (found != m.rate_points.end()) return found - m.rate_points.begin();
  const auto append = [](std::string* out, const RatePoint& point) {
    absl::StrAppend(out, point.distortion);
  };
  return Bad("plan.distortion", absl::StrCat(distortion, " is not among those of this bundle: ",
                                             absl::StrJoin(m.rate_points, ", ", append)));
}

absl::Status CheckRecomputed(absl::string_view field, const LayerRange& range, std::int64_t num_layers) {
  if (range.first >= 0 && range.first <= range.last && range.last < num_layers) return absl::OkStatus();
  return Bad(field, absl::StrCat(range.first, " to ", range.last, " is no range of layers among 0 to ",
                                 num_layers - 1));
}

// A rank that its layer's treatment does not use is zero, so that equal plans are equal values.
absl::Status CheckUnused(std::initializer_list<std::pair<absl::string_view, std::int64_t>> ranks) {
  for (const auto& [field, rank] : ranks) {
    if (rank != 0)
      return Bad(field, absl::StrCat(rank, " given, but this layer's treatment has no such codes"));
  }
  return absl::OkStatus();
}

// Of what is never cut the number of columns stands in the plan too.
absl::Status CheckWhole(absl::string_view field, std::int64_t columns, std::int64_t all) {
  if (columns == all) return absl::OkStatus();
  return Bad(field, absl::StrCat(columns, " given, but this layer sends all ", all, " columns"));
}

absl::string_view FormName(StateForm form) {
  switch (form) {
    case StateForm::kCodes:
      return "codes";
    case StateForm::kRaw:
      return "raw state";
    case StateForm::kRawRoped:
      return "raw roped state";
    case StateForm::kSelective:
      return "selective recomputation";
    case StateForm::kFused:
      return "fused codes";
  }
  return "unknown";
}

// What was asked for and means nothing for this form.
absl::Status CheckAsked(const PlanRequest& request) {
  const bool codes = request.form == StateForm::kCodes;
  const auto absent = [&](absl::string_view field, bool given, bool allowed) {
    if (!given || allowed) return absl::OkStatus();
    return Bad(field, absl::StrCat("given, but a plan of ", FormName(request.form), " has no such choice"));
  };
  SCD_RETURN_IF_ERROR(absent("plan.rank_k", request.rank_k.has_value(), codes));
  SCD_RETURN_IF_ERROR(absent("plan.rank_v", request.rank_v.has_value(), codes));
  SCD_RETURN_IF_ERROR(absent("plan.rank_h", request.rank_h.has_value(), codes));
  SCD_RETURN_IF_ERROR(absent("plan.patch_layers", request.patch_layers.has_value(), codes));
  SCD_RETURN_IF_ERROR(
      absent("plan.distortion", request.distortion.has_value(), codes || request.form == StateForm::kFused));
  return absent("plan.recompute_layers", request.recompute_layers.has_value(),
                request.form == StateForm::kSelective);
}

absl::StatusOr<std::vector<LayerRanks>> CodeLayers(const BundleManifest& m, const PlanRequest& request) {
  const std::int64_t rank_k = request.rank_k.value_or(m.default_rank_k);
  const std::int64_t rank_v = request.rank_v.value_or(m.default_rank_v);
  const std::int64_t rank_h = request.rank_h.value_or(m.default_rank_h);
  SCD_RETURN_IF_ERROR(CheckReuseRank("plan.rank_k", rank_k, m.max_rank_k));
  SCD_RETURN_IF_ERROR(CheckReuseRank("plan.rank_v", rank_v, m.max_rank_v));
  if (request.rank_h) SCD_RETURN_IF_ERROR(CheckPatchRank("plan.rank_h", rank_h, m.ranks_h));

  std::vector<LayerRanks> layers(
      static_cast<std::size_t>(m.num_layers),
      LayerRanks{.treatment = LayerTreatment::kReuse, .rank_k = rank_k, .rank_v = rank_v});
  std::set<std::int64_t> patched;
  for (const std::int64_t layer : request.patch_layers.value_or(m.default_patch_layers)) {
    SCD_RETURN_IF_ERROR(CheckPatchLayer("plan.patch_layers", layer, m.candidate_layers));
    if (!patched.insert(layer).second) {
      return Bad("plan.patch_layers", absl::StrCat("layer ", layer, " stands twice"));
    }
    layers[static_cast<std::size_t>(layer)] =
        LayerRanks{.treatment = LayerTreatment::kPatch, .rank_h = rank_h};
  }
  return layers;
}

absl::StatusOr<std::vector<LayerRanks>> RawLayers(const BundleManifest& m, const PlanRequest& request) {
  const LayerTreatment treatment =
      request.form == StateForm::kRawRoped ? LayerTreatment::kRawRoped : LayerTreatment::kRaw;
  std::vector<LayerRanks> layers(static_cast<std::size_t>(m.num_layers),
                                 LayerRanks{.treatment = treatment, .rank_k = m.d_kv(), .rank_v = m.d_kv()});
  if (request.form != StateForm::kSelective) return layers;
  const std::optional<LayerRange> group =
      request.recompute_layers ? request.recompute_layers : m.selective.default_group;
  if (!group) {
    return Bad("plan.recompute_layers",
               "not given, and this bundle holds no selective profile: name the first and last layer, or fit "
               "the bundle again with selective.profile: true");
  }
  SCD_RETURN_IF_ERROR(CheckRecomputed("plan.recompute_layers", *group, m.num_layers));
  for (std::int64_t layer = group->first; layer <= group->last; ++layer) {
    layers[static_cast<std::size_t>(layer)] = LayerRanks{
        .treatment = LayerTreatment::kRecompute, .residual = layer == group->first ? m.hidden_size : 0};
  }
  return layers;
}

absl::StatusOr<std::vector<LayerRanks>> FusedLayers(const BundleManifest& m) {
  if (m.fused.rank == 0) {
    return Bad("mode", "fused: this bundle has no such translators: fit it again with fused.rank");
  }
  std::vector<LayerRanks> layers(static_cast<std::size_t>(m.num_layers),
                                 {.treatment = LayerTreatment::kFused});
  for (std::int64_t first = 0; first < m.num_layers; first += m.fused.group) {
    layers[static_cast<std::size_t>(m.FusedGroup(first).last)].rank_kv = m.fused.rank;
  }
  return layers;
}

// What a layer's treatment allows beside the layers before it.
absl::Status CheckMix(absl::string_view field, LayerTreatment treatment, LayerTreatment first) {
  const bool mixes = treatment == first || (IsCode(treatment) && IsCode(first)) ||
                     (treatment == LayerTreatment::kRaw && first == LayerTreatment::kRecompute) ||
                     (treatment == LayerTreatment::kRecompute && first == LayerTreatment::kRaw);
  if (mixes) return absl::OkStatus();
  return Bad(field,
             "is treated in a way that does not mix with layer 0's: codes with codes, raw state before "
             "RoPE with recomputed layers, raw roped state with nothing else");
}

// Groups are whole, and each sends its code with its last layer.
absl::Status CheckFused(const BundleManifest& m, const LayerPlan& plan, std::int64_t index,
                        absl::string_view field) {
  if (m.fused.rank == 0) return Bad(field, "this bundle has no Fused translators");
  const LayerRange group = m.FusedGroup(index);
  for (std::int64_t i = group.first; i <= group.last; ++i) {
    if (plan.layers[static_cast<std::size_t>(i)].treatment == LayerTreatment::kFused) continue;
    return Bad(field, absl::StrCat("is fused, but layer ", i, " of its group, ", group.first, " to ",
                                   group.last, ", is not"));
  }
  const std::int64_t rank = plan.layers[static_cast<std::size_t>(index)].rank_kv;
  const std::string kv = absl::StrCat(field, ".rank_kv");
  if (index == group.last) return CheckWhole(kv, rank, m.fused.rank);
  return rank == 0
             ? absl::OkStatus()
             : Bad(kv, absl::StrCat(rank, " given, but the code of this layer's group comes with layer ",
                                    group.last));
}

absl::Status CheckLayer(const BundleManifest& m, const LayerPlan& plan, std::int64_t index) {
  const LayerRanks& layer = plan.layers[static_cast<std::size_t>(index)];
  const std::string field = absl::StrCat("plan.layers[", index, "]");
  const std::string k = absl::StrCat(field, ".rank_k"), v = absl::StrCat(field, ".rank_v"),
                    h = absl::StrCat(field, ".rank_h"), residual = absl::StrCat(field, ".residual"),
                    kv = absl::StrCat(field, ".rank_kv");
  SCD_RETURN_IF_ERROR(CheckMix(field, layer.treatment, plan.layers[0].treatment));
  switch (layer.treatment) {
    case LayerTreatment::kReuse:
      SCD_RETURN_IF_ERROR(CheckReuseRank(k, layer.rank_k, m.max_rank_k));
      SCD_RETURN_IF_ERROR(CheckReuseRank(v, layer.rank_v, m.max_rank_v));
      return CheckUnused({{h, layer.rank_h}, {residual, layer.residual}, {kv, layer.rank_kv}});
    case LayerTreatment::kPatch:
      SCD_RETURN_IF_ERROR(CheckPatchLayer(field, index, m.candidate_layers));
      SCD_RETURN_IF_ERROR(CheckPatchRank(h, layer.rank_h, m.ranks_h));
      return CheckUnused(
          {{k, layer.rank_k}, {v, layer.rank_v}, {residual, layer.residual}, {kv, layer.rank_kv}});
    case LayerTreatment::kRaw:
    case LayerTreatment::kRawRoped:
      SCD_RETURN_IF_ERROR(CheckWhole(k, layer.rank_k, m.d_kv()));
      SCD_RETURN_IF_ERROR(CheckWhole(v, layer.rank_v, m.d_kv()));
      return CheckUnused({{h, layer.rank_h}, {residual, layer.residual}, {kv, layer.rank_kv}});
    case LayerTreatment::kFused:
      SCD_RETURN_IF_ERROR(CheckFused(m, plan, index, field));
      return CheckUnused(
          {{k, layer.rank_k}, {v, layer.rank_v}, {h, layer.rank_h}, {residual, layer.residual}});
    case LayerTreatment::kRecompute:
      SCD_RETURN_IF_ERROR(
          CheckUnused({{k, layer.rank_k}, {v, layer.rank_v}, {h, layer.rank_h}, {kv, layer.rank_kv}}));
      if (index == 0) return CheckWhole(residual, layer.residual, m.hidden_size);
      if (plan.layers[static_cast<std::size_t>(index - 1)].treatment == LayerTreatment::kRecompute) {
        return CheckUnused({{residual, layer.residual}, {kv, layer.rank_kv}});
      }
      if (plan.recomputed()->first != index) {
        return Bad(field, "begins a second group of recomputed layers; a plan has at most one");
      }
      return CheckWhole(residual, layer.residual, m.hidden_size);
  }
  return Bad(field, absl::StrCat(static_cast<int>(layer.treatment), " is no treatment of a layer"));
}

}  // namespace

absl::StatusOr<LayerPlan> Bundle::ResolvePlan(const PlanRequest& request) const {
  const BundleManifest& m = manifest_;
  SCD_RETURN_IF_ERROR(CheckAsked(request));
  LayerPlan plan;
  if (request.form == StateForm::kCodes) {
    SCD_ASSIGN_OR_RETURN(plan.layers, CodeLayers(m, request));
  } else if (request.form == StateForm::kFused) {
    SCD_ASSIGN_OR_RETURN(plan.layers, FusedLayers(m));
  } else {
    SCD_ASSIGN_OR_RETURN(plan.layers, RawLayers(m, request));
  }
  plan.native_head = request.native_head.value_or(m.native_head);
  plan.native_tail = request.native_tail.value_or(m.native_tail);
  SCD_RETURN_IF_ERROR(CheckNative("plan.native_head", plan.native_head));
  SCD_RETURN_IF_ERROR(CheckNative("plan.native_tail", plan.native_tail));
  const bool entropy = request.form == StateForm::kFused && !m.rate_points.empty();
  plan.codec = request.codec.value_or(entropy ? Codec::kEntropy : Codec::kBF16);
  SCD_RETURN_IF_ERROR(CheckCodec(plan.codec));
  if (plan.codec == Codec::kEntropy) {
    plan.rate_point = m.default_rate_point;
    if (request.distortion) {
      SCD_ASSIGN_OR_RETURN(plan.rate_point, RatePointOf(m, *request.distortion));
    }
  } else if (request.distortion) {
    return Bad("plan.distortion", absl::StrCat("given, but codec ", std::string(CodecName(plan.codec)),
                                               " has none; entropy has"));
  }
  SCD_RETURN_IF_ERROR(CheckRatePoint(m, plan));
  return plan;
}

absl::Status Bundle::CheckPlan(const LayerPlan& plan) const {
  const std::int64_t num_layers = manifest_.num_layers;
  if (static_cast<std::int64_t>(plan.layers.size()) != num_layers) {
    return Bad("plan.layers",
               absl::StrCat("has ", plan.layers.size(), " entries, this bundle ", num_layers, " layers"));
  }
  for (std::int64_t i = 0; i < num_layers; ++i) SCD_RETURN_IF_ERROR(CheckLayer(manifest_, plan, i));
  SCD_RETURN_IF_ERROR(CheckNative("plan.native_head", plan.native_head));
  SCD_RETURN_IF_ERROR(CheckNative("plan.native_tail", plan.native_tail));
  SCD_RETURN_IF_ERROR(CheckCodec(plan.codec));
  return CheckRatePoint(manifest_, plan);
}

}  // namespace scd
