// A transformer's weights, packed for a backend, and the loading of them.
#ifndef SCD_COMMON_MODEL_MODEL_WEIGHTS_H_
#define SCD_COMMON_MODEL_MODEL_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/model_config.h"
#include "common/model/device_tensor.h"
#include "common/model/embedding.h"
#include "common/model/linear.h"
#include "common/model/weight_store.h"
#include "common/model/weights_format.h"
#include "kernels/backend.h"

namespace scd {

// The matrices of LayerWeights::qkv.
enum QkvPart : std::uint8_t { kQPart, kKPart, kVPart };

struct LayerWeights {
  DeviceTensor attention_norm;  // [hidden] f32
  Linear qkv;             // [d_q + 2 d_kv, hidden], with biases where the model has them, as all that follow
  Linear o;               // [hidden, d_q]
  DeviceTensor q_norm;    // [head_dim] f32; empty where the model has none
  DeviceTensor k_norm;    // [head_dim] f32; empty where the model has none
  DeviceTensor mlp_norm;  // [hidden] f32
  Linear gate_up;         // [2 intermediate, hidden]
  Linear down;            // [hidden, intermediate]
};

struct ModelWeights {
  Embedding embedding;
  std::vector<LayerWeights> layers;
  DeviceTensor final_norm;  // [hidden] f32
  Linear lm_head;           // [vocab, hidden]; packed from the embedding where they are tied
  std::string formats;      // of the matrices: "dense", "q4_1, q8_0, adapter apart" ...
  std::int64_t matrix_bytes = 0;
};

// Loads every weight that `config` asks for; norms and biases are f32, the embedding as it is stored.
// INVALID_ARGUMENT naming layer and weight for a shape other than config's, or one that cannot be quantised;
// else what `store` and `backend` answer. Complete when it returns.
absl::StatusOr<ModelWeights> LoadModelWeights(const ModelConfig& config, const WeightStore& store,
                                              Backend& backend, WeightsFormat format);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_MODEL_WEIGHTS_H_
