// A model in a GGUF file: hyper-parameters from the metadata (architectures llama, which Mistral models are
// stored as too, qwen2 and qwen3) and weights by meaning.
#ifndef SCD_COMMON_MODEL_GGUF_MODEL_H_
#define SCD_COMMON_MODEL_GGUF_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/config/model_config.h"
#include "common/model/gguf_file.h"
#include "common/model/stored_weights.h"

namespace scd {

// INVALID_ARGUMENT naming file and key for what is missing, wrong or not supported (experts, partial rotary
// embedding ...). The result passed Validate. End-of-sequence ids are eos and, where the file has it, eot.
absl::StatusOr<ModelConfig> ParseGgufConfig(const GgufFile& file);

// RoPE of `architecture` from the scaling keys and the tensor of frequency factors (rope_freqs.weight), which
// is honoured where it is Llama 3's scaling and refused otherwise.
absl::StatusOr<RopeConfig> ParseGgufRope(const GgufFile& file, const ModelConfig& config);

// Checks presence, type and shape of every weight that the config asks for, and refuses tensors that it does
// not. Load gives f32 for quantised types and for rows that the file keeps in another order (Q and K of llama
// files), else views into the mapping; LoadBlocks gives quantised types in that order of rows. Keeps the
// file.
absl::StatusOr<std::unique_ptr<StoredWeights>> OpenGgufWeights(std::shared_ptr<const GgufFile> file,
                                                               const ModelConfig& config);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_GGUF_MODEL_H_
