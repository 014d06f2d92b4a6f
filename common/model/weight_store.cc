#include "common/model/weight_store.h"

#include <initializer_list>
#include <utility>

#include "kernels/dtype.h"

namespace scd {

std::string_view WeightKindName(WeightKind kind) {
  switch (kind) {
    case WeightKind::kEmbedding:
      return "embedding";
    case WeightKind::kFinalNorm:
      return "final_norm";
    case WeightKind::kLmHead:
      return "lm_head";
    case WeightKind::kAttentionNorm:
      return "attention_norm";
    case WeightKind::kQ:
      return "q";
    case WeightKind::kK:
      return "k";
    case WeightKind::kV:
      return "v";
    case WeightKind::kO:
      return "o";
    case WeightKind::kQBias:
      return "q_bias";
    case WeightKind::kKBias:
      return "k_bias";
    case WeightKind::kVBias:
      return "v_bias";
    case WeightKind::kOBias:
      return "o_bias";
    case WeightKind::kQNorm:
      return "q_norm";
    case WeightKind::kKNorm:
      return "k_norm";
    case WeightKind::kMlpNorm:
      return "mlp_norm";
    case WeightKind::kGate:
      return "gate";
    case WeightKind::kUp:
      return "up";
    case WeightKind::kDown:
      return "down";
    case WeightKind::kGateBias:
      return "gate_bias";
    case WeightKind::kUpBias:
      return "up_bias";
    case WeightKind::kDownBias:
      return "down_bias";
  }
  return "unknown";
}

Shape WeightShape(const ModelConfig& config, WeightKind kind) {
  switch (kind) {
    case WeightKind::kEmbedding:
    case WeightKind::kLmHead:
      return {config.vocab_size, config.hidden_size};
    case WeightKind::kFinalNorm:
    case WeightKind::kAttentionNorm:
    case WeightKind::kMlpNorm:
    case WeightKind::kOBias:
    case WeightKind::kDownBias:
      return {config.hidden_size};
    case WeightKind::kQ:
      return {config.d_q(), config.hidden_size};
    case WeightKind::kK:
    case WeightKind::kV:
      return {config.d_kv(), config.hidden_size};
    case WeightKind::kO:
      return {config.hidden_size, config.d_q()};
    case WeightKind::kQBias:
      return {config.d_q()};
    case WeightKind::kKBias:
    case WeightKind::kVBias:
      return {config.d_kv()};
    case WeightKind::kQNorm:
    case WeightKind::kKNorm:
      return {config.head_dim};
    case WeightKind::kGate:
    case WeightKind::kUp:
      return {config.intermediate_size, config.hidden_size};
    case WeightKind::kDown:
      return {config.hidden_size, config.intermediate_size};
    case WeightKind::kGateBias:
    case WeightKind::kUpBias:
      return {config.intermediate_size};
  }
  return {};
}

std::vector<WeightKind> LayerWeightKinds(const ModelConfig& config) {
  using enum WeightKind;
  std::vector<WeightKind> kinds;
  const auto add = [&kinds](std::initializer_list<WeightKind> more) {
    for (const WeightKind kind : more) kinds.push_back(kind);
  };
  add({kAttentionNorm, kQ, kK, kV, kO});
  if (config.qkv_bias) add({kQBias, kKBias, kVBias});
  if (config.o_bias) add({kOBias});
  if (config.qk_norm) add({kQNorm, kKNorm});
  add({kMlpNorm, kGate, kUp, kDown});
  if (config.mlp_bias) add({kGateBias, kUpBias, kDownBias});
  return kinds;
}

std::vector<WeightKind> ModelWeightKinds(const ModelConfig& config) {
  std::vector<WeightKind> kinds = {WeightKind::kEmbedding, WeightKind::kFinalNorm};
  if (!config.tie_word_embeddings) kinds.push_back(WeightKind::kLmHead);
  return kinds;
}

std::vector<float> HostTensor::TakeFloats() && {
  if (!values_.empty()) return std::move(values_);
  std::vector<float> out(static_cast<std::size_t>(view_.num_elements()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    switch (view_.dtype()) {
      case DType::kBF16:
        out[i] = Bf16ToFloat(view_.as<std::uint16_t>()[i]);
        break;
      case DType::kF16:
        out[i] = F16ToFloat(view_.as<std::uint16_t>()[i]);
        break;
      default:
        out[i] = view_.as<float>()[i];
    }
  }
  return out;
}

}  // namespace scd
