// The digest that names a model: two models of one digest compute the same from the same tokens.
#ifndef SCD_COMMON_MODEL_MODEL_DIGEST_H_
#define SCD_COMMON_MODEL_MODEL_DIGEST_H_

#include "absl/status/statusor.h"
#include "common/config/model_config.h"
#include "common/io/digest.h"
#include "common/model/peft_adapter.h"
#include "common/model/stored_weights.h"

namespace scd {

// Domain "scd.model.v1", then
// - the configuration in force: architecture ("llama" for mistral too, which computes the same), num_layers,
//   hidden_size, intermediate_size, num_heads, num_kv_heads, head_dim, vocab_size, max_positions,
//   rms_norm_eps (as the float it is computed with); RoPE type, theta and, in the order of RopeConfig, the
//   fields that the type uses (an optional number as 1 and the number, or 0 where it is absent); the number
//   of sliding-window entries and each of them; the five flags from tie_word_embeddings to qk_norm. The ids
//   of bos and eos are left out.
// - every weight of the base in the order of ModelWeightKinds, then layer by layer of LayerWeightKinds: its
// kind's
//   name, layer (-1 for the model's own), stored type, rank, dimensions and bytes as stored.
// - 0, or 1 and what PeftAdapter::AddTo adds.
// Integers and flags by AddInt, names by AddString, numbers by AddDouble.
absl::StatusOr<Digest> ModelDigest(const ModelConfig& in_force, const ModelConfig& base,
                                   const StoredWeights& weights, const PeftAdapter* adapter);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_MODEL_DIGEST_H_
