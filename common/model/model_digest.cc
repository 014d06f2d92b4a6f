#include "common/model/model_digest.h"

#include <optional>
#include <string>

#include "kernels/status_macros.h"

namespace scd {
namespace {

void AddOptional(DigestBuilder& digest, const std::optional<double>& value) {
  digest.AddInt(value ? 1 : 0);
  if (value) digest.AddDouble(*value);
}

void AddRope(DigestBuilder& digest, const RopeConfig& rope) {
  digest.AddString(std::string(RopeTypeName(rope.type))).AddDouble(rope.theta);
  if (rope.type == RopeType::kDefault) return;
  digest.AddDouble(rope.factor);
  if (rope.type == RopeType::kLinear) return;
  if (rope.type == RopeType::kLlama3) {
    digest.AddDouble(rope.low_freq_factor)
        .AddDouble(rope.high_freq_factor)
        .AddInt(rope.original_max_positions);
    return;
  }
  digest.AddInt(rope.original_max_positions).AddDouble(rope.beta_fast).AddDouble(rope.beta_slow);
  AddOptional(digest, rope.attention_factor);
  AddOptional(digest, rope.mscale);
  AddOptional(digest, rope.mscale_all_dim);
  digest.AddInt(rope.truncate ? 1 : 0);
}

void AddConfig(DigestBuilder& digest, const ModelConfig& config) {
  const Architecture family =
      config.architecture == Architecture::kMistral ? Architecture::kLlama : config.architecture;
  digest.AddString(std::string(ArchitectureName(family)));
  for (const std::int64_t size :
       {config.num_layers, config.hidden_size, config.intermediate_size, config.num_heads,
        config.num_kv_heads, config.head_dim, config.vocab_size, config.max_positions}) {
    digest.AddInt(size);
  }
  digest.AddDouble(static_cast<double>(static_cast<float>(config.rms_norm_eps)));
  AddRope(digest, config.rope);
  digest.AddInt(static_cast<std::int64_t>(config.sliding_window.size()));
  for (const std::int64_t width : config.sliding_window) digest.AddInt(width);
  for (const bool flag :
       {config.tie_word_embeddings, config.qkv_bias, config.o_bias, config.mlp_bias, config.qk_norm}) {
    digest.AddInt(flag ? 1 : 0);
  }
}

absl::Status AddWeight(DigestBuilder& digest, const StoredWeights& weights, WeightKind kind,
                       std::int64_t layer) {
  SCD_ASSIGN_OR_RETURN(const StoredTensor tensor, weights.Stored(kind, layer));
  digest.AddString(std::string(WeightKindName(kind)))
      .AddInt(layer)
      .AddString(tensor.type)
      .AddInt(tensor.shape.rank());
  for (int i = 0; i < tensor.shape.rank(); ++i) digest.AddInt(tensor.shape[i]);
  digest.AddBytes(tensor.bytes);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Digest> ModelDigest(const ModelConfig& in_force, const ModelConfig& base,
                                   const StoredWeights& weights, const PeftAdapter* adapter) {
  DigestBuilder digest("scd.model.v1");
  AddConfig(digest, in_force);
  for (const WeightKind kind : ModelWeightKinds(base))
    SCD_RETURN_IF_ERROR(AddWeight(digest, weights, kind, -1));
  for (std::int64_t layer = 0; layer < base.num_layers; ++layer) {
    for (const WeightKind kind : LayerWeightKinds(base)) {
      SCD_RETURN_IF_ERROR(AddWeight(digest, weights, kind, layer));
    }
  }
  digest.AddInt(adapter != nullptr ? 1 : 0);
  if (adapter != nullptr) adapter->AddTo(digest);
  return digest.Finish();
}

}  // namespace scd
