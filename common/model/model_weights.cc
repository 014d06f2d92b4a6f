#include "common/model/model_weights.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kNoLayer = -1;

std::string WeightName(WeightKind kind, std::int64_t layer) {
  return layer == kNoLayer ? std::string(WeightKindName(kind))
                           : absl::StrCat("layer ", layer, " ", std::string(WeightKindName(kind)));
}

std::vector<float> ToFloats(const ConstTensorView& view) {
  std::vector<float> values(static_cast<std::size_t>(view.num_elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (view.dtype()) {
      case DType::kF16:
        values[i] = F16ToFloat(view.as<std::uint16_t>()[i]);
        break;
      case DType::kBF16:
        values[i] = Bf16ToFloat(view.as<std::uint16_t>()[i]);
        break;
      default:
        values[i] = view.as<float>()[i];
    }
  }
  return values;
}

class WeightLoader {
 public:
  WeightLoader(const ModelConfig& config, const WeightStore& store, Backend& backend, Stream& stream)
      : config_(config), store_(store), backend_(backend), stream_(stream) {}

  // As f32 in the backend's memory.
  absl::StatusOr<DeviceTensor> LoadVector(WeightKind kind, std::int64_t layer) const {
    SCD_ASSIGN_OR_RETURN(const HostTensor host, LoadChecked(kind, layer));
    return Upload(host.view(), DType::kF32);
  }

  // In the dtype that it is stored in, in the backend's memory.
  absl::StatusOr<DeviceTensor> LoadTable(WeightKind kind, std::int64_t layer) const {
    SCD_ASSIGN_OR_RETURN(const HostTensor host, LoadChecked(kind, layer));
    return Upload(host.view(), host.view().dtype());
  }

  absl::StatusOr<std::unique_ptr<PackedWeight>> LoadMatrix(WeightKind kind, std::int64_t layer,
                                                           std::optional<WeightKind> bias_kind) const {
    SCD_ASSIGN_OR_RETURN(const HostTensor matrix, LoadChecked(kind, layer));
    if (!bias_kind) return backend_.PackWeight(matrix.view(), {});
    SCD_ASSIGN_OR_RETURN(const HostTensor stored_bias, LoadChecked(*bias_kind, layer));
    const std::vector<float> bias = ToFloats(stored_bias.view());
    return backend_.PackWeight(matrix.view(),
                               ConstTensorView(bias.data(), DType::kF32, stored_bias.view().shape()));
  }

  absl::StatusOr<LayerWeights> LoadLayer(std::int64_t layer) const {
    const auto if_biased = [](bool biased, WeightKind kind) {
      return biased ? std::optional<WeightKind>(kind) : std::nullopt;
    };
    const bool qkv = config_.qkv_bias;
    const bool mlp = config_.mlp_bias;
    LayerWeights w;
    SCD_ASSIGN_OR_RETURN(w.attention_norm, LoadVector(WeightKind::kAttentionNorm, layer));
    SCD_ASSIGN_OR_RETURN(w.q, LoadMatrix(WeightKind::kQ, layer, if_biased(qkv, WeightKind::kQBias)));
    SCD_ASSIGN_OR_RETURN(w.k, LoadMatrix(WeightKind::kK, layer, if_biased(qkv, WeightKind::kKBias)));
    SCD_ASSIGN_OR_RETURN(w.v, LoadMatrix(WeightKind::kV, layer, if_biased(qkv, WeightKind::kVBias)));
    SCD_ASSIGN_OR_RETURN(w.o,
                         LoadMatrix(WeightKind::kO, layer, if_biased(config_.o_bias, WeightKind::kOBias)));
    if (config_.qk_norm) {
      SCD_ASSIGN_OR_RETURN(w.q_norm, LoadVector(WeightKind::kQNorm, layer));
      SCD_ASSIGN_OR_RETURN(w.k_norm, LoadVector(WeightKind::kKNorm, layer));
    }
    SCD_ASSIGN_OR_RETURN(w.mlp_norm, LoadVector(WeightKind::kMlpNorm, layer));
    SCD_ASSIGN_OR_RETURN(w.gate, LoadMatrix(WeightKind::kGate, layer, if_biased(mlp, WeightKind::kGateBias)));
    SCD_ASSIGN_OR_RETURN(w.up, LoadMatrix(WeightKind::kUp, layer, if_biased(mlp, WeightKind::kUpBias)));
    SCD_ASSIGN_OR_RETURN(w.down, LoadMatrix(WeightKind::kDown, layer, if_biased(mlp, WeightKind::kDownBias)));
    return w;
  }

 private:
  absl::StatusOr<HostTensor> LoadChecked(WeightKind kind, std::int64_t layer) const {
    SCD_ASSIGN_OR_RETURN(HostTensor tensor, store_.Load(kind, layer));
    const Shape expected = WeightShape(config_, kind);
    if (tensor.view().shape() != expected) {
      return absl::InvalidArgumentError(absl::StrCat(WeightName(kind, layer), ": has shape ",
                                                     tensor.view().shape().ToString(), ", expected ",
                                                     expected.ToString()));
    }
    return tensor;
  }

  absl::StatusOr<DeviceTensor> Upload(const ConstTensorView& host, DType dtype) const {
    const auto bytes = static_cast<std::size_t>(host.num_elements()) * DTypeBytes(dtype);
    SCD_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> memory, backend_.Allocate(MemoryKind::kDevice, bytes));
    const TensorView view = memory->View(dtype, host.shape());
    SCD_RETURN_IF_ERROR(backend_.Copy(stream_, view, host));
    SCD_RETURN_IF_ERROR(backend_.Synchronize(stream_));
    return DeviceTensor{std::move(memory), view};
  }

  const ModelConfig& config_;
  const WeightStore& store_;
  Backend& backend_;
  Stream& stream_;
};

}  // namespace

absl::StatusOr<ModelWeights> LoadModelWeights(const ModelConfig& config, const WeightStore& store,
                                              Backend& backend) {
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, backend.CreateStream());
  const WeightLoader loader(config, store, backend, *stream);
  ModelWeights weights;
  SCD_ASSIGN_OR_RETURN(weights.embedding, loader.LoadTable(WeightKind::kEmbedding, kNoLayer));
  weights.layers.reserve(static_cast<std::size_t>(config.num_layers));
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    SCD_ASSIGN_OR_RETURN(LayerWeights layer_weights, loader.LoadLayer(layer));
    weights.layers.push_back(std::move(layer_weights));
  }
  SCD_ASSIGN_OR_RETURN(weights.final_norm, loader.LoadVector(WeightKind::kFinalNorm, kNoLayer));
  const WeightKind head = config.tie_word_embeddings ? WeightKind::kEmbedding : WeightKind::kLmHead;
  SCD_ASSIGN_OR_RETURN(weights.lm_head, loader.LoadMatrix(head, kNoLayer, std::nullopt));
  return weights;
}

}  // namespace scd
