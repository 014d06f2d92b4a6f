// A transformer's weights, packed for a backend, and the loading of them.
#ifndef SCD_COMMON_MODEL_MODEL_WEIGHTS_H_
#define SCD_COMMON_MODEL_MODEL_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/model_config.h"
#include "common/model/weight_store.h"
#include "kernels/backend.h"

namespace scd {

// A tensor in a backend's memory.
struct DeviceTensor {
  std::unique_ptr<Buffer> memory;
  ConstTensorView view;
};

struct LayerWeights {
  DeviceTensor attention_norm;  // [hidden] f32
  std::unique_ptr<PackedWeight>
      q;  // [d_q, hidden], with its bias where the model has one, as all that follow
  std::unique_ptr<PackedWeight> k;     // [d_kv, hidden]
  std::unique_ptr<PackedWeight> v;     // [d_kv, hidden]
  std::unique_ptr<PackedWeight> o;     // [hidden, d_q]
  DeviceTensor q_norm;                 // [head_dim] f32; empty where the model has none
  DeviceTensor k_norm;                 // [head_dim] f32; empty where the model has none
  DeviceTensor mlp_norm;               // [hidden] f32
  std::unique_ptr<PackedWeight> gate;  // [intermediate, hidden]
  std::unique_ptr<PackedWeight> up;    // [intermediate, hidden]
  std::unique_ptr<PackedWeight> down;  // [hidden, intermediate]
};

struct ModelWeights {
  DeviceTensor embedding;  // [vocab, hidden] in the dtype that it is stored in
  std::vector<LayerWeights> layers;
  DeviceTensor final_norm;                // [hidden] f32
  std::unique_ptr<PackedWeight> lm_head;  // [vocab, hidden]; packed from the embedding where they are tied
};

// Loads every weight that `config` asks for. INVALID_ARGUMENT naming layer and weight for a shape other than
// config's; else what `store` and `backend` answer. Complete when it returns.
absl::StatusOr<ModelWeights> LoadModelWeights(const ModelConfig& config, const WeightStore& store,
                                              Backend& backend);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_MODEL_WEIGHTS_H_
