// config.json of a Hugging Face model folder -> ModelConfig, with the defaults that transformers has for a
// field that is not there. What this project does not compute (another activation, partial rotary embedding,
// an unknown RoPE type, quantised weights ...) is refused by name, never ignored.
#ifndef SCD_COMMON_MODEL_HF_CONFIG_H_
#define SCD_COMMON_MODEL_HF_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/model_config.h"
#include "common/io/json.h"

namespace scd {

struct HfConfig {
  ModelConfig model;
  // Whether the file says if the embeddings are tied. Where it does not, model.tie_word_embeddings is false,
  // and weights without an lm_head are still read as tied.
  bool states_tied = false;
};

// The file at config_path, and the end-of-sequence ids of generation_config.json beside it where there is one
// (they replace config.json's). The result passed Validate. INVALID_ARGUMENT naming file and field;
// NOT_FOUND.
absl::StatusOr<HfConfig> LoadHfConfig(const std::string& config_path);

// RoPE in both spellings: rope_theta and rope_scaling ("type" or "rope_type") at the top level, or
// rope_parameters.
absl::StatusOr<RopeConfig> ParseHfRope(const JsonObject& config, std::int64_t max_positions);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_HF_CONFIG_H_
