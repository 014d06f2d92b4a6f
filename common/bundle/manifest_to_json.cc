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

// One field a line; inside it, one object of an array a line. Lists of numbers stay on their line, so that
// thirty layers are thirty lines.
std::string ForPeople(const Json& document) {
  std::string out = "{\n";
  const char* separator = "";
  for (const auto& [name, value] : document.items()) {
    out += separator;
    out += "  " + Compact(name) + ": ";
    const bool table = value.is_array() && !value.empty() && value[0].is_object();
    if (!table && !value.is_object()) {
      out += Compact(value);
    } else {
      out += table ? "[\n" : "{\n";
      const char* inner_separator = "";
      for (const auto& [key, item] : value.items()) {
        out += inner_separator;
        out += "    " + (table ? "" : Compact(key) + ": ") + Compact(item);
        inner_separator = ",\n";
      }
      out += table ? "\n  ]" : "\n  }";
    }
    separator = ",\n";
  }
  return out + "\n}\n";
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
  document["untranslatable_ids"] = m.untranslatable_ids;
  document["layer_errors"] = Json::array();
  for (std::size_t i = 0; i < m.layer_errors.size(); ++i) {
    const LayerErrors& errors = m.layer_errors[i];
    document["layer_errors"].push_back({{"layer", i}, {"k", errors.k}, {"v", errors.v}, {"h", errors.h}});
  }
  document["patch_choice"] = Json::array();
  for (const PatchChoiceStep& step : m.patch_choice) {
    document["patch_choice"].push_back({{"layer", step.layer},
                                        {"kl", step.kl},
                                        {"gain", step.gain},
                                        {"gain_per_cost", step.gain_per_cost},
                                        {"gain_per_layer", step.gain_per_layer}});
  }
  document["calibration"] = {{"corpus", m.calibration.corpus},
                             {"num_prefixes", m.calibration.num_prefixes},
                             {"num_tokens", m.calibration.num_tokens},
                             {"num_held_out_prefixes", m.calibration.num_held_out_prefixes},
                             {"ridge_lambda", m.calibration.ridge_lambda},
                             {"native_head", m.calibration.native_head}};
  document["quality"] = {{"kl_reuse", m.quality.kl_reuse},
                         {"kl_scd", m.quality.kl_scd},
                         {"ppl_native", m.quality.ppl_native},
                         {"ppl_reuse", m.quality.ppl_reuse},
                         {"ppl_scd", m.quality.ppl_scd}};
  document["tensors_digest"] = m.tensors_digest.ToHex();
  return ForPeople(document);
}

}  // namespace scd
