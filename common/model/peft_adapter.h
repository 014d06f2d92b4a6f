// A PEFT LoRA adapter over the weights of a base model: W + scale * B A, merged in f32 as a weight is loaded,
// or given apart where the base keeps its quantised blocks.
#ifndef SCD_COMMON_MODEL_PEFT_ADAPTER_H_
#define SCD_COMMON_MODEL_PEFT_ADAPTER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/config/model_config.h"
#include "common/io/digest.h"
#include "common/io/safetensors.h"
#include "common/model/peft_config.h"
#include "common/model/weight_store.h"

namespace scd {

class PeftAdapter {
 public:
  // The folder's adapter_config.json and adapter_model.safetensors, for a base of these hyper-parameters.
  // Every module that the configuration targets must exist and have its two matrices, of the right shapes,
  // and every tensor of the file must be used. INVALID_ARGUMENT naming file and field or tensor; NOT_FOUND.
  static absl::StatusOr<std::unique_ptr<PeftAdapter>> Open(const std::string& folder,
                                                           const ModelConfig& base);

  PeftAdapter(const PeftAdapter&) = delete;
  PeftAdapter& operator=(const PeftAdapter&) = delete;

  // Whether the adapter brings an embedding and an output layer of its own, where the base has one for both.
  bool unties_embeddings() const { return unties_embeddings_; }

  // The tensors by name (name, dtype, shape, bytes), then each target by name (name, rank, alpha), then
  // use_rslora.
  void AddTo(DigestBuilder& digest) const;

  // A weight of the base with the adapter's part added, or the adapter's own; nothing where the adapter
  // leaves the weight alone. `base` is the store under it.
  absl::StatusOr<HostTensor> Merge(const WeightStore& base, WeightKind kind, std::int64_t layer) const;

  // What it adds to a matrix of the base; absent where it adds nothing.
  std::optional<LowRankMatrices> LowRank(WeightKind kind, std::int64_t layer) const;
  // Whether it brings this weight whole.
  bool Replaces(WeightKind kind, std::int64_t layer) const { return saved_.contains({kind, layer}); }

 private:
  using Key = std::pair<WeightKind, std::int64_t>;
  struct Target {
    std::string module;
    PeftConfig::Lora lora;
    ConstTensorView a;  // [rank, in]
    ConstTensorView b;  // [out, rank]
  };

  PeftAdapter(PeftConfig config, std::unique_ptr<SafetensorsFile> file)
      : config_(std::move(config)), file_(std::move(file)) {}
  absl::Status BindTargets(const ModelConfig& base);
  absl::Status BindSaved(const ModelConfig& base);
  absl::Status CheckAllUsed() const;

  PeftConfig config_;
  std::unique_ptr<SafetensorsFile> file_;
  std::map<Key, Target> targets_;
  std::map<Key, ConstTensorView> saved_;
  bool unties_embeddings_ = false;
};

// The weights of `base` under `adapter`.
std::unique_ptr<WeightStore> MergedWeights(std::unique_ptr<WeightStore> base,
                                           std::unique_ptr<PeftAdapter> adapter);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_PEFT_ADAPTER_H_
