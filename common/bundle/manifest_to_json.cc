#include <utility>

#include "common/bundle/manifest.h"
#include "nlohmann/json.hpp"

namespace scd {
namespace {

using Json = nlohmann::ordered_json;

std::string Compact(const Json& value) {
  // Text that is not UTF-8 (a path in a description) must not make the manifest unreadable.
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// One field a line, and one object of an array a line. Lists of numbers stay on their line, so that thirty
// layers are thirty lines. `indent`: of the line that the value begins on.
std::string ForPeople(const Json& value, const std::string& indent = "") {
  const bool table = value.is_array() && !value.empty() && value[0].is_object();
  if (!table && !value.is_object()) return Compact(value);
  const std::string inner = indent + "  ";
  std::string out = table ? "[\n" : "{\n";
  const char* separator = "";
  for (const auto& [key, item] : value.items()) {
    out += separator + inner + (table ? Compact(item) : Compact(key) + ": " + ForPeople(item, inner));
    separator = ",\n";
  }
  return out + "\n" + indent + (table ? "]" : "}");
}

Json Range(const LayerRange& range) {
  return {{"first", range.first}, {"last", range.last}};
}

Json Selective(const SelectiveProfile& profile) {
  Json groups = Json::array();
  for (const SelectiveGroup& group : profile.groups) {
    Json item = Range(group.layers);
    item["kl"] = group.kl;
    item["bytes_fraction"] = group.bytes_fraction;
    groups.push_back(std::move(item));
  }
  return {{"kl_raw", profile.kl_raw},
          {"default", profile.default_group ? Range(*profile.default_group) : Json()},
          {"groups", std::move(groups)}};
}

Json Rates(const BundleManifest& m) {
  Json points = Json::array();
  for (const RatePoint& point : m.rate_points) {
    points.push_back(
        {{"distortion", point.distortion}, {"bytes_per_token", point.bytes_per_token}, {"kl", point.kl}});
  }
  return {{"default", m.default_rate_point}, {"points", std::move(points)}};
}

Json Model(const BundleModel& model) {
  return {{"description", model.description},
          {"digest", model.digest.ToHex()},
          {"tokenizer_digest", model.tokenizer_digest.ToHex()}};
}

}  // namespace

std::string ManifestToJson(const BundleManifest& m) {
  Json document;
  document["version"] = m.version;
  document["created_by"] = m.created_by;
  document["producer"] = Model(m.producer);
  document["consumer"] = Model(m.consumer);
  document["shape"] = {{"architecture", m.architecture},
                       {"num_layers", m.num_layers},
                       {"hidden_size", m.hidden_size},
                       {"num_kv_heads", m.num_kv_heads},
                       {"head_dim", m.head_dim}};
  document["plan"] = {{"rank_k", m.default_rank_k},   {"rank_v", m.default_rank_v},
                      {"rank_h", m.default_rank_h},   {"patch_layers", m.default_patch_layers},
                      {"native_head", m.native_head}, {"native_tail", m.native_tail}};
  document["fitted"] = {{"max_rank_k", m.max_rank_k},
                        {"max_rank_v", m.max_rank_v},
                        {"ranks_h", m.ranks_h},
                        {"candidate_layers", m.candidate_layers},
                        {"mlp_width", m.mlp_width}};
  document["fused"] = {{"rank", m.fused.rank}, {"group", m.fused.group}};
  document["rates"] = Rates(m);
  document["untranslatable_ids"] = m.untranslatable_ids;
  document["layer_errors"] = Json::array();
  for (std::size_t i = 0; i < m.layer_errors.size(); ++i) {
    const LayerErrors& errors = m.layer_errors[i];
    document["layer_errors"].push_back(
        {{"layer", i}, {"k", errors.k}, {"v", errors.v}, {"h", errors.h}, {"kv", errors.kv}});
  }
  document["patch_choice"] = Json::array();
  for (const PatchChoiceStep& step : m.patch_choice) {
    document["patch_choice"].push_back({{"layer", step.layer},
                                        {"kl", step.kl},
                                        {"gain", step.gain},
                                        {"gain_per_cost", step.gain_per_cost},
                                        {"gain_per_layer", step.gain_per_layer}});
  }
  document["selective"] = Selective(m.selective);
  document["calibration"] = {{"corpus", m.calibration.corpus},
                             {"num_prefixes", m.calibration.num_prefixes},
                             {"num_tokens", m.calibration.num_tokens},
                             {"num_held_out_prefixes", m.calibration.num_held_out_prefixes},
                             {"ridge_lambda", m.calibration.ridge_lambda},
                             {"native_head", m.calibration.native_head}};
  document["quality"] = {{"kl_reuse", m.quality.kl_reuse},     {"kl_scd", m.quality.kl_scd},
                         {"ppl_native", m.quality.ppl_native}, {"ppl_reuse", m.quality.ppl_reuse},
                         {"ppl_scd", m.quality.ppl_scd},       {"kl_fused", m.quality.kl_fused},
                         {"ppl_fused", m.quality.ppl_fused}};
  document["tensors_digest"] = m.tensors_digest.ToHex();
  return ForPeople(document) + "\n";
}

}  // namespace scd
