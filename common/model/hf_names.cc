#include "common/model/hf_names.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace scd {
namespace {

constexpr std::string_view kLayerPrefix = "model.layers.";

// Module within a layer, or of the model.
const char* Module(WeightKind kind) {
  switch (kind) {
    case WeightKind::kEmbedding:
      return "model.embed_tokens";
    case WeightKind::kFinalNorm:
      return "model.norm";
    case WeightKind::kLmHead:
      return "lm_head";
    case WeightKind::kAttentionNorm:
      return "input_layernorm";
    case WeightKind::kQ:
    case WeightKind::kQBias:
      return "self_attn.q_proj";
    case WeightKind::kK:
    case WeightKind::kKBias:
      return "self_attn.k_proj";
    case WeightKind::kV:
    case WeightKind::kVBias:
      return "self_attn.v_proj";
    case WeightKind::kO:
    case WeightKind::kOBias:
      return "self_attn.o_proj";
    case WeightKind::kQNorm:
      return "self_attn.q_norm";
    case WeightKind::kKNorm:
      return "self_attn.k_norm";
    case WeightKind::kMlpNorm:
      return "post_attention_layernorm";
    case WeightKind::kGate:
    case WeightKind::kGateBias:
      return "mlp.gate_proj";
    case WeightKind::kUp:
    case WeightKind::kUpBias:
      return "mlp.up_proj";
    case WeightKind::kDown:
    case WeightKind::kDownBias:
      return "mlp.down_proj";
  }
  return "";
}

bool IsBias(WeightKind kind) {
  switch (kind) {
    case WeightKind::kQBias:
    case WeightKind::kKBias:
    case WeightKind::kVBias:
    case WeightKind::kOBias:
    case WeightKind::kGateBias:
    case WeightKind::kUpBias:
    case WeightKind::kDownBias:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string HfModuleName(WeightKind kind, std::int64_t layer) {
  if (layer < 0) return Module(kind);
  return absl::StrCat(std::string(kLayerPrefix), layer, ".", Module(kind));
}

std::string HfWeightName(WeightKind kind, std::int64_t layer) {
  return absl::StrCat(HfModuleName(kind, layer), IsBias(kind) ? ".bias" : ".weight");
}

std::int64_t HfLayerOf(std::string_view name) {
  if (!name.starts_with(kLayerPrefix)) return -1;
  name.remove_prefix(kLayerPrefix.size());
  const std::string number(name.substr(0, name.find('.')));
  std::int64_t layer = -1;
  if (number.size() == name.size() || !absl::SimpleAtoi(number, &layer) || layer < 0) return -1;
  return layer;
}

}  // namespace scd
