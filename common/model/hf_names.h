// What transformers calls the weights of the supported architectures (they share one naming).
#ifndef SCD_COMMON_MODEL_HF_NAMES_H_
#define SCD_COMMON_MODEL_HF_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/model/weight_store.h"

namespace scd {

// "model.layers.3.self_attn.q_proj", "model.embed_tokens", "lm_head": the module that a weight belongs to.
std::string HfModuleName(WeightKind kind, std::int64_t layer);
// The module's name with ".weight" or ".bias".
std::string HfWeightName(WeightKind kind, std::int64_t layer);

// The layer in "model.layers.<layer>. ..."; -1 for names of another form.
std::int64_t HfLayerOf(std::string_view name);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_HF_NAMES_H_
