// A model's weights by meaning, whatever file they lie in (safetensors, sharded safetensors, GGUF, either
// with a LoRA adapter merged). Every tensor was checked for presence, shape, dtype and extent when the store
// was made.
#ifndef SCD_COMMON_MODEL_WEIGHT_STORE_H_
#define SCD_COMMON_MODEL_WEIGHT_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/model_config.h"
#include "kernels/quantized_matrix.h"
#include "kernels/tensor_view.h"

namespace scd {

enum class WeightKind : std::uint8_t {
  kEmbedding,      // [vocab, hidden]
  kFinalNorm,      // [hidden]
  kLmHead,         // [vocab, hidden]; the embedding where they are tied
  kAttentionNorm,  // [hidden], RMSNorm before attention
  kQ,
  kK,
  kV,  // [d_q, hidden], [d_kv, hidden], [d_kv, hidden]; rows in "rotate half" order whatever the file's
  kO,  // [hidden, d_q]
  kQBias,
  kKBias,
  kVBias,
  kOBias,  // present only where the config says so
  kQNorm,
  kKNorm,    // [head_dim], Qwen3
  kMlpNorm,  // [hidden], RMSNorm before the MLP
  kGate,
  kUp,    // [intermediate, hidden]
  kDown,  // [hidden, intermediate]
  kGateBias,
  kUpBias,
  kDownBias,
};
std::string_view WeightKindName(WeightKind kind);

// The shape that `config` asks of a weight.
Shape WeightShape(const ModelConfig& config, WeightKind kind);
// The weights that `config` asks for: per layer (kinds with a layer) and per model (kLmHead only where it is
// not tied).
std::vector<WeightKind> LayerWeightKinds(const ModelConfig& config);
std::vector<WeightKind> ModelWeightKinds(const ModelConfig& config);

// A tensor on the host: a view into a mapped file, or values that were made (dequantised, merged) and are
// owned here.
class HostTensor {
 public:
  explicit HostTensor(ConstTensorView mapped) : view_(mapped) {}
  HostTensor(std::vector<float> values, const Shape& shape)
      : values_(std::move(values)), view_(values_.data(), DType::kF32, shape) {}
  HostTensor(HostTensor&&) = default;
  HostTensor& operator=(HostTensor&&) = default;
  HostTensor(const HostTensor&) = delete;
  HostTensor& operator=(const HostTensor&) = delete;

  // f32, f16 or bf16, contiguous.
  ConstTensorView view() const { return view_; }
  // The values as floats, without a copy where they are owned here.
  std::vector<float> TakeFloats() &&;

 private:
  std::vector<float> values_;
  ConstTensorView view_;
};

// A matrix that lies in its file as quantised blocks.
struct StoredBlocks {
  QuantizedMatrix matrix;
  bool exact = true;      // whether it stands for exactly the numbers that Load gives
  std::string type_name;  // "q4_1"; "q6_k as int8" where it is not exact
};

// What an adapter adds to a matrix: B A, the adapter's scale in B.
struct LowRankMatrices {
  std::int64_t rank = 0;
  std::vector<float> a;  // [rank, in]
  std::vector<float> b;  // [out, rank]
};

class WeightStore {
 public:
  virtual ~WeightStore() = default;
  // The whole weight, an adapter's part merged. layer is -1 for the model's own weights. NOT_FOUND for a kind
  // that the model does not have.
  virtual absl::StatusOr<HostTensor> Load(WeightKind kind, std::int64_t layer) const = 0;

  // The same matrix apart: without what an adapter adds (as numbers, or as the blocks that it lies in, absent
  // where the file stores it otherwise), and that (absent where no adapter adds to it).
  virtual absl::StatusOr<HostTensor> LoadBase(WeightKind kind, std::int64_t layer) const {
    return Load(kind, layer);
  }
  virtual absl::StatusOr<std::optional<StoredBlocks>> LoadBlocks(WeightKind /*kind*/,
                                                                 std::int64_t /*layer*/) const {
    return std::nullopt;
  }
  virtual absl::StatusOr<std::optional<LowRankMatrices>> LoadLowRank(WeightKind /*kind*/,
                                                                     std::int64_t /*layer*/) const {
    return std::nullopt;
  }
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_WEIGHT_STORE_H_
