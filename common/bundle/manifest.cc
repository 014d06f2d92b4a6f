#include "common/bundle/manifest.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/bundle/manifest_fields.h"
#include "common/config/codec.h"
#include "common/io/json.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using nlohmann::json;

// A granule of as many columns in f32 fills a frame of 1 MiB (common/wire/frame_codec.h).
constexpr std::int64_t kMaxFusedRank = (1 << 20) / (kFusedGranule * 4);

bool Contains(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

absl::StatusOr<BundleModel> ReadModel(const JsonObject& parent, const char* key) {
  SCD_ASSIGN_OR_RETURN(const JsonObject object, parent.Object(key));
  SCD_RETURN_IF_ERROR(CheckFields(object, {"description", "digest", "tokenizer_digest"}));
  BundleModel model;
  SCD_ASSIGN_OR_RETURN(model.description, object.String("description"));
  SCD_ASSIGN_OR_RETURN(model.digest, ReadDigest(object, "digest"));
  SCD_ASSIGN_OR_RETURN(model.tokenizer_digest, ReadDigest(object, "tokenizer_digest"));
  return model;
}

absl::Status ReadShape(const JsonObject& parent, BundleManifest& m) {
  SCD_ASSIGN_OR_RETURN(const JsonObject object, parent.Object("shape"));
  SCD_RETURN_IF_ERROR(
      CheckFields(object, {"architecture", "num_layers", "hidden_size", "num_kv_heads", "head_dim"}));
  SCD_ASSIGN_OR_RETURN(m.architecture, object.String("architecture"));
  if (m.architecture.empty()) return object.Error("architecture", "is empty");
  SCD_ASSIGN_OR_RETURN(m.num_layers, object.Int("num_layers", 1, kMaxBundleLayers));
  SCD_ASSIGN_OR_RETURN(m.hidden_size, object.Int("hidden_size", 1, kMaxBundleWidth));
  SCD_ASSIGN_OR_RETURN(m.num_kv_heads, object.Int("num_kv_heads", 1, kMaxBundleWidth));
  SCD_ASSIGN_OR_RETURN(m.head_dim, object.Int("head_dim", 1, kMaxBundleWidth / m.num_kv_heads));
  return absl::OkStatus();
}

absl::Status ReadFitted(const JsonObject& parent, BundleManifest& m) {
  SCD_ASSIGN_OR_RETURN(const JsonObject object, parent.Object("fitted"));
  SCD_RETURN_IF_ERROR(
      CheckFields(object, {"max_rank_k", "max_rank_v", "ranks_h", "candidate_layers", "mlp_width"}));
  SCD_ASSIGN_OR_RETURN(m.max_rank_k, object.Int("max_rank_k", 1, m.d_kv()));
  SCD_ASSIGN_OR_RETURN(m.max_rank_v, object.Int("max_rank_v", 1, m.d_kv()));
  SCD_ASSIGN_OR_RETURN(m.candidate_layers,
                       ReadInts(object, "candidate_layers", 0, m.num_layers - 1, m.num_layers, Order::kAny));
  SCD_ASSIGN_OR_RETURN(m.ranks_h,
                       ReadInts(object, "ranks_h", 1, m.hidden_size, kMaxBundleRanksH, Order::kAscending));
  if (m.candidate_layers.empty() != m.ranks_h.empty()) {
    return object.Error("ranks_h", "is empty exactly where candidate_layers is");
  }
  const std::int64_t least_width = m.candidate_layers.empty() ? 0 : 1;
  const std::int64_t most_width = m.candidate_layers.empty() ? 0 : kMaxBundleWidth;
  SCD_ASSIGN_OR_RETURN(m.mlp_width, object.Int("mlp_width", least_width, most_width));
  return absl::OkStatus();
}

absl::Status ReadFused(const JsonObject& parent, BundleManifest& m) {
  SCD_ASSIGN_OR_RETURN(const JsonObject object, parent.Object("fused"));
  SCD_RETURN_IF_ERROR(CheckFields(object, {"rank", "group"}));
  SCD_ASSIGN_OR_RETURN(m.fused.group, object.Int("group", 1, m.num_layers));
  const std::int64_t widest = m.fused.group * std::min(m.hidden_size, 2 * m.d_kv());
  SCD_ASSIGN_OR_RETURN(m.fused.rank, object.Int("rank", 0, std::min(widest, kMaxFusedRank)));
  return absl::OkStatus();
}

absl::Status ReadRates(const JsonObject& parent, BundleManifest& m) {
  SCD_ASSIGN_OR_RETURN(const JsonObject object, parent.Object("rates"));
  SCD_RETURN_IF_ERROR(CheckFields(object, {"default", "points"}));
  SCD_ASSIGN_OR_RETURN(const json* const array, ReadArray(object, "points", kMaxRatePoints));
  for (std::size_t i = 0; i < array->size(); ++i) {
    SCD_ASSIGN_OR_RETURN(const JsonObject item,
                         JsonObject::Create((*array)[i], absl::StrCat(object.path(), ": points[", i, "]")));
    SCD_RETURN_IF_ERROR(CheckFields(item, {"distortion", "bytes_per_token", "kl"}));
    RatePoint point;
    SCD_ASSIGN_OR_RETURN(point.distortion, item.Double("distortion", 0, kAnyFinite));
    if (point.distortion <= (m.rate_points.empty() ? 0 : m.rate_points.back().distortion)) {
      return item.Error("distortion", "is not above 0 and above the point before it");
    }
    SCD_ASSIGN_OR_RETURN(point.bytes_per_token, item.Double("bytes_per_token", 0, kAnyFinite));
    SCD_ASSIGN_OR_RETURN(point.kl, item.Double("kl", -kAnyFinite, kAnyFinite));
    m.rate_points.push_back(point);
  }
  const auto last = std::max<std::int64_t>(0, static_cast<std::int64_t>(m.rate_points.size()) - 1);
  SCD_ASSIGN_OR_RETURN(m.default_rate_point, object.Int("default", 0, last));
  return absl::OkStatus();
}

absl::Status ReadDefaultPlan(const JsonObject& parent, BundleManifest& m) {
  SCD_ASSIGN_OR_RETURN(const JsonObject object, parent.Object("plan"));
  SCD_RETURN_IF_ERROR(
      CheckFields(object, {"rank_k", "rank_v", "rank_h", "patch_layers", "native_head", "native_tail"}));
  SCD_ASSIGN_OR_RETURN(m.default_rank_k, object.Int("rank_k", 1, m.max_rank_k));
  SCD_ASSIGN_OR_RETURN(m.default_rank_v, object.Int("rank_v", 1, m.max_rank_v));
  SCD_ASSIGN_OR_RETURN(m.default_rank_h, object.Int("rank_h", 0, kMaxBundleWidth));
  if (m.ranks_h.empty() ? m.default_rank_h != 0 : !Contains(m.ranks_h, m.default_rank_h)) {
    return object.Error("rank_h", absl::StrCat(m.default_rank_h, " is not in fitted: ranks_h"));
  }
  SCD_ASSIGN_OR_RETURN(m.default_patch_layers,
                       ReadInts(object, "patch_layers", 0, m.num_layers - 1, m.num_layers, Order::kAny));
  for (const std::int64_t layer : m.default_patch_layers) {
    if (!Contains(m.candidate_layers, layer)) {
      return object.Error("patch_layers", absl::StrCat(layer, " is not in fitted: candidate_layers"));
    }
  }
  SCD_ASSIGN_OR_RETURN(m.native_head, object.Int("native_head", 0, kMaxNativePositions));
  SCD_ASSIGN_OR_RETURN(m.native_tail, object.Int("native_tail", 0, kMaxNativePositions));
  return absl::OkStatus();
}

absl::Status ReadLayerErrors(const JsonObject& parent, BundleManifest& m) {
  SCD_ASSIGN_OR_RETURN(const json* const array, ReadArray(parent, "layer_errors", m.num_layers));
  if (array->size() != static_cast<std::size_t>(m.num_layers)) {
    return parent.Error("layer_errors",
                        absl::StrCat("has ", array->size(), " entries for ", m.num_layers, " layers"));
  }
  for (std::size_t i = 0; i < array->size(); ++i) {
    SCD_ASSIGN_OR_RETURN(
        const JsonObject object,
        JsonObject::Create((*array)[i], absl::StrCat(parent.path(), ": layer_errors[", i, "]")));
    SCD_RETURN_IF_ERROR(CheckFields(object, {"layer", "k", "v", "h", "kv"}));
    const auto index = static_cast<std::int64_t>(i);
    SCD_RETURN_IF_ERROR(object.Int("layer", index, index).status());
    LayerErrors errors;
    SCD_ASSIGN_OR_RETURN(errors.k, object.Double("k", 0, kAnyFinite));
    SCD_ASSIGN_OR_RETURN(errors.v, object.Double("v", 0, kAnyFinite));
    SCD_ASSIGN_OR_RETURN(errors.h, object.Double("h", 0, kAnyFinite));
    SCD_ASSIGN_OR_RETURN(errors.kv, object.Double("kv", 0, kAnyFinite));
    m.layer_errors.push_back(errors);
  }
  return absl::OkStatus();
}

absl::Status ReadPatchChoice(const JsonObject& parent, BundleManifest& m) {
  SCD_ASSIGN_OR_RETURN(
      const json* const array,
      ReadArray(parent, "patch_choice", static_cast<std::int64_t>(m.candidate_layers.size())));
  std::set<std::int64_t> chosen;
  for (std::size_t i = 0; i < array->size(); ++i) {
    SCD_ASSIGN_OR_RETURN(
        const JsonObject object,
        JsonObject::Create((*array)[i], absl::StrCat(parent.path(), ": patch_choice[", i, "]")));
    SCD_RETURN_IF_ERROR(CheckFields(object, {"layer", "kl", "gain", "gain_per_cost", "gain_per_layer"}));
    PatchChoiceStep step;
    SCD_ASSIGN_OR_RETURN(step.layer, object.Int("layer", 0, m.num_layers - 1));
    if (!Contains(m.candidate_layers, step.layer)) {
      return object.Error("layer", absl::StrCat(step.layer, " is not in fitted: candidate_layers"));
    }
    if (!chosen.insert(step.layer).second) {
      return object.Error("layer", absl::StrCat(step.layer, " stands in two steps"));
    }
    SCD_ASSIGN_OR_RETURN(step.kl, object.Double("kl", -kAnyFinite, kAnyFinite));
    SCD_ASSIGN_OR_RETURN(step.gain, object.Double("gain", -kAnyFinite, kAnyFinite));
    SCD_ASSIGN_OR_RETURN(step.gain_per_cost, object.Double("gain_per_cost", -kAnyFinite, kAnyFinite));
    SCD_ASSIGN_OR_RETURN(step.gain_per_layer, object.Double("gain_per_layer", -kAnyFinite, kAnyFinite));
    m.patch_choice.push_back(step);
  }
  return absl::OkStatus();
}

absl::StatusOr<LayerRange> ReadRange(const JsonObject& object, std::int64_t num_layers) {
  LayerRange range;
  SCD_ASSIGN_OR_RETURN(range.first, object.Int("first", 0, num_layers - 1));
  SCD_ASSIGN_OR_RETURN(range.last, object.Int("last", range.first, num_layers - 1));
  return range;
}

absl::Status ReadSelective(const JsonObject& parent, BundleManifest& m) {
  SCD_ASSIGN_OR_RETURN(const JsonObject object, parent.Object("selective"));
  SCD_RETURN_IF_ERROR(CheckFields(object, {"kl_raw", "default", "groups"}));
  SelectiveProfile& profile = m.selective;
  SCD_ASSIGN_OR_RETURN(profile.kl_raw, object.Double("kl_raw", -kAnyFinite, kAnyFinite));
  SCD_ASSIGN_OR_RETURN(const json* const array, ReadArray(object, "groups", kMaxSelectiveGroups));
  std::set<std::pair<std::int64_t, std::int64_t>> measured;
  for (std::size_t i = 0; i < array->size(); ++i) {
    SCD_ASSIGN_OR_RETURN(const JsonObject item,
                         JsonObject::Create((*array)[i], absl::StrCat(object.path(), ": groups[", i, "]")));
    SCD_RETURN_IF_ERROR(CheckFields(item, {"first", "last", "kl", "bytes_fraction"}));
    SelectiveGroup group;
    SCD_ASSIGN_OR_RETURN(group.layers, ReadRange(item, m.num_layers));
    if (!measured.emplace(group.layers.first, group.layers.last).second) {
      return item.Error("first", "this group stands twice");
    }
    SCD_ASSIGN_OR_RETURN(group.kl, item.Double("kl", -kAnyFinite, kAnyFinite));
    SCD_ASSIGN_OR_RETURN(group.bytes_fraction, item.Double("bytes_fraction", 0, kAnyFinite));
    profile.groups.push_back(group);
  }
  const json* const chosen = object.Find("default");
  if (chosen == nullptr || (chosen->is_null() && !profile.groups.empty())) {
    return object.Error("default", "missing; expected the first and last layer of a group");
  }
  if (chosen->is_null()) return absl::OkStatus();
  SCD_ASSIGN_OR_RETURN(const JsonObject group, object.Object("default"));
  SCD_RETURN_IF_ERROR(CheckFields(group, {"first", "last"}));
  SCD_ASSIGN_OR_RETURN(profile.default_group, ReadRange(group, m.num_layers));
  return absl::OkStatus();
}

absl::Status ReadCalibration(const JsonObject& parent, CalibrationRecord& record) {
  SCD_ASSIGN_OR_RETURN(const JsonObject object, parent.Object("calibration"));
  SCD_RETURN_IF_ERROR(CheckFields(object, {"corpus", "num_prefixes", "num_tokens", "num_held_out_prefixes",
                                           "ridge_lambda", "native_head"}));
  SCD_ASSIGN_OR_RETURN(record.corpus, object.String("corpus"));
  SCD_ASSIGN_OR_RETURN(record.num_prefixes, object.Int("num_prefixes", 0, kMaxCount));
  SCD_ASSIGN_OR_RETURN(record.num_tokens, object.Int("num_tokens", 0, kMaxCount));
  SCD_ASSIGN_OR_RETURN(record.num_held_out_prefixes, object.Int("num_held_out_prefixes", 0, kMaxCount));
  SCD_ASSIGN_OR_RETURN(record.ridge_lambda, object.Double("ridge_lambda", 0, kAnyFinite));
  SCD_ASSIGN_OR_RETURN(record.native_head, object.Int("native_head", 0, kMaxNativePositions));
  return absl::OkStatus();
}

absl::Status ReadQuality(const JsonObject& parent, HeldOutQuality& quality) {
  SCD_ASSIGN_OR_RETURN(const JsonObject object, parent.Object("quality"));
  SCD_RETURN_IF_ERROR(CheckFields(
      object, {"kl_reuse", "kl_scd", "ppl_native", "ppl_reuse", "ppl_scd", "kl_fused", "ppl_fused"}));
  SCD_ASSIGN_OR_RETURN(quality.kl_reuse, object.Double("kl_reuse", -kAnyFinite, kAnyFinite));
  SCD_ASSIGN_OR_RETURN(quality.kl_scd, object.Double("kl_scd", -kAnyFinite, kAnyFinite));
  SCD_ASSIGN_OR_RETURN(quality.ppl_native, object.Double("ppl_native", 0, kAnyFinite));
  SCD_ASSIGN_OR_RETURN(quality.ppl_reuse, object.Double("ppl_reuse", 0, kAnyFinite));
  SCD_ASSIGN_OR_RETURN(quality.ppl_scd, object.Double("ppl_scd", 0, kAnyFinite));
  SCD_ASSIGN_OR_RETURN(quality.kl_fused, object.Double("kl_fused", -kAnyFinite, kAnyFinite));
  SCD_ASSIGN_OR_RETURN(quality.ppl_fused, object.Double("ppl_fused", 0, kAnyFinite));
  return absl::OkStatus();
}

absl::Status CheckVersion(const JsonObject& object) {
  SCD_ASSIGN_OR_RETURN(const std::int64_t version, object.Int("version", 1, INT64_MAX));
  if (version > kBundleVersion) {
    return absl::UnimplementedError(absl::StrCat(object.path(), ": version: ", version,
                                                 " is newer than this program knows, ", kBundleVersion));
  }
  if (version < kBundleVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        object.path(), ": version: ", version, " is older than the one that this program reads, ",
        kBundleVersion, ": fit the bundle again with scd-calibrate"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BundleManifest> ParseManifest(absl::string_view text, absl::string_view origin) {
  if (text.size() > kMaxManifestBytes) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": has ", text.size(), " bytes, more than the ",
                                                   kMaxManifestBytes, " that a manifest may have"));
  }
  SCD_ASSIGN_OR_RETURN(const json document, ParseJson(text, origin));
  SCD_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::Create(document, std::string(origin)));
  // First, so that another layout is reported as newer or older and not by the first field that is strange.
  SCD_RETURN_IF_ERROR(CheckVersion(object));
  SCD_RETURN_IF_ERROR(
      CheckFields(object, {"version", "created_by", "producer", "consumer", "shape", "plan", "fitted",
                           "fused", "rates", "untranslatable_ids", "layer_errors", "patch_choice",
                           "selective", "calibration", "quality", "tensors_digest"}));
  BundleManifest m;
  SCD_ASSIGN_OR_RETURN(m.created_by, object.String("created_by"));
  SCD_ASSIGN_OR_RETURN(m.producer, ReadModel(object, "producer"));
  SCD_ASSIGN_OR_RETURN(m.consumer, ReadModel(object, "consumer"));
  SCD_RETURN_IF_ERROR(ReadShape(object, m));
  SCD_RETURN_IF_ERROR(ReadFitted(object, m));
  SCD_RETURN_IF_ERROR(ReadDefaultPlan(object, m));
  SCD_RETURN_IF_ERROR(ReadFused(object, m));
  SCD_RETURN_IF_ERROR(ReadRates(object, m));
  SCD_ASSIGN_OR_RETURN(const std::vector<std::int64_t> ids,
                       ReadInts(object, "untranslatable_ids", 0, std::numeric_limits<std::int32_t>::max(),
                                kMaxCount, Order::kAscending));
  m.untranslatable_ids.assign(ids.begin(), ids.end());
  SCD_RETURN_IF_ERROR(ReadLayerErrors(object, m));
  SCD_RETURN_IF_ERROR(ReadPatchChoice(object, m));
  SCD_RETURN_IF_ERROR(ReadSelective(object, m));
  SCD_RETURN_IF_ERROR(ReadCalibration(object, m.calibration));
  SCD_RETURN_IF_ERROR(ReadQuality(object, m.quality));
  SCD_ASSIGN_OR_RETURN(m.tensors_digest, ReadDigest(object, "tensors_digest"));
  return m;
}

}  // namespace scd
