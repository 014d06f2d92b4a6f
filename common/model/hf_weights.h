// Weights of a Hugging Face folder: model.safetensors, or the shards that model.safetensors.index.json lists.
#ifndef SCD_COMMON_MODEL_HF_WEIGHTS_H_
#define SCD_COMMON_MODEL_HF_WEIGHTS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/model/hf_config.h"
#include "common/model/stored_weights.h"

namespace scd {

struct HfWeights {
  std::unique_ptr<StoredWeights> weights;
  // Whether the output layer is the embedding: as the config says, or, where it says nothing, as the file
  // holds no lm_head.
  bool tied = false;
  // Layers in the files beyond those that the config asks for; they are not used.
  std::int64_t num_unused_layers = 0;
};

// Maps the files and checks presence, dtype (f32, f16, bf16) and shape of every weight that the config asks
// for. Tensors of these layers that it does not ask for (a bias, say) are refused: dropping them would change
// the model.
absl::StatusOr<HfWeights> OpenHfWeights(const std::string& folder, const HfConfig& config);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_HF_WEIGHTS_H_
