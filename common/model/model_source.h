// Opens a model from disk: a Hugging Face folder or a GGUF file, with or without a PEFT LoRA adapter on top.
#ifndef SCD_COMMON_MODEL_MODEL_SOURCE_H_
#define SCD_COMMON_MODEL_MODEL_SOURCE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/model_config.h"
#include "common/io/digest.h"
#include "common/model/chat_template.h"
#include "common/model/tokenizer.h"
#include "common/model/weight_store.h"
#include "common/model/weights_format.h"

namespace scd {

struct ModelSource {
  std::string path;     // a folder with config.json and *.safetensors, or a .gguf file
  std::string adapter;  // a PEFT folder (adapter_config.json, adapter_model.safetensors); or empty
  // A config.json that replaces the model's own hyper-parameters (shapes must agree); empty: the adapter
  // folder's config.json where it has one, else the model's own.
  std::string config;
  WeightsFormat weights = WeightsFormat::kF32;  // how a transformer is to keep the matrices
};

struct Model {
  ModelConfig config;
  std::unique_ptr<WeightStore> weights;
  WeightsFormat weights_format = WeightsFormat::kF32;  // ModelSource::weights, for TransformerOptions
  std::unique_ptr<Tokenizer> tokenizer;
  std::string chat_template_source;  // empty where the model brings none
  // "scd.model.v1" over the effective config, then every weight (kind, layer, dtype, shape, stored bytes) in
  // the order of ModelWeightKinds and LayerWeightKinds; with an adapter also its tensors, alpha and ranks.
  Digest digest;
  std::string description;  // "SmolLM2-135M-Instruct.Q4_1.gguf + smollm2-135m-expert (llama, 30 layers, 135 M
                            // weights)"
};

// Maps the files and checks every tensor that the config asks for. Memory stays mapped while the result
// lives.
absl::StatusOr<Model> OpenModel(const ModelSource& source);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_MODEL_SOURCE_H_
