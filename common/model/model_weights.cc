#include "common/model/model_weights.h"

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kNoLayer = -1;

class WeightLoader {
 public:
  WeightLoader(const ModelConfig& config, const WeightStore& store, Backend& backend, Stream& stream,
               WeightsFormat format)
      : config_(config),
        backend_(backend),
        stream_(stream),
        format_(format),
        linears_(config, store, backend, format) {}

  absl::StatusOr<ModelWeights> Load() {
    ModelWeights weights;
    SCD_RETURN_IF_ERROR(LoadEnds(weights));
    weights.layers.reserve(static_cast<std::size_t>(config_.num_layers));
    for (std::int64_t layer = 0; layer < config_.num_layers; ++layer) {
      SCD_ASSIGN_OR_RETURN(LayerWeights layer_weights, LoadLayer(layer));
      weights.layers.push_back(std::move(layer_weights));
    }
    SCD_ASSIGN_OR_RETURN(weights.final_norm, LoadVector(WeightKind::kFinalNorm, kNoLayer));
    weights.matrix_bytes = weights.lm_head.size_bytes();
    for (const LayerWeights& w : weights.layers) {
      weights.matrix_bytes +=
          w.qkv.size_bytes() + w.o.size_bytes() + w.gate_up.size_bytes() + w.down.size_bytes();
    }
    weights.formats = absl::StrJoin(linears_.formats(), ", ");
    return weights;
  }

 private:
  // The embedding and the head, which share a file's blocks where they are tied and stay as they are.
  absl::Status LoadEnds(ModelWeights& weights) {
    const bool dense = format_ == WeightsFormat::kF32 || format_ == WeightsFormat::kBF16;
    std::optional<StoredBlocks> blocks;
    if (!dense && backend_.device() == Device::kHost) {
      SCD_ASSIGN_OR_RETURN(blocks, linears_.LoadBlocks(WeightKind::kEmbedding, kNoLayer));
    }
    if (blocks && config_.tie_word_embeddings && format_ == WeightsFormat::kAuto) {
      SCD_ASSIGN_OR_RETURN(weights.lm_head, linears_.Pack(*blocks));
    } else {
      const LinearMatrix head{config_.tie_word_embeddings ? WeightKind::kEmbedding : WeightKind::kLmHead,
                              std::nullopt};
      SCD_ASSIGN_OR_RETURN(weights.lm_head, linears_.Load(kNoLayer, {&head, 1}));
    }
    if (blocks && blocks->exact) {
      weights.embedding = Embedding(std::move(blocks->matrix));
      return absl::OkStatus();
    }
    SCD_ASSIGN_OR_RETURN(const HostTensor host, linears_.LoadChecked(WeightKind::kEmbedding, kNoLayer));
    SCD_ASSIGN_OR_RETURN(DeviceTensor table, Upload(host.view(), host.view().dtype()));
    weights.embedding = Embedding(std::move(table));
    return absl::OkStatus();
  }

  absl::StatusOr<LayerWeights> LoadLayer(std::int64_t layer) {
    using enum WeightKind;
    const auto with = [](WeightKind kind, bool biased, WeightKind bias) {
      return LinearMatrix{kind, biased ? std::optional<WeightKind>(bias) : std::nullopt};
    };
    const bool qkv = config_.qkv_bias;
    const bool mlp = config_.mlp_bias;
    const std::array qkv_matrices = {with(kQ, qkv, kQBias), with(kK, qkv, kKBias), with(kV, qkv, kVBias)};
    const std::array o_matrix = {with(kO, config_.o_bias, kOBias)};
    const std::array gate_up_matrices = {with(kGate, mlp, kGateBias), with(kUp, mlp, kUpBias)};
    const std::array down_matrix = {with(kDown, mlp, kDownBias)};
    LayerWeights w;
    SCD_ASSIGN_OR_RETURN(w.attention_norm, LoadVector(kAttentionNorm, layer));
    SCD_ASSIGN_OR_RETURN(w.qkv, linears_.Load(layer, qkv_matrices));
    SCD_ASSIGN_OR_RETURN(w.o, linears_.Load(layer, o_matrix));
    if (config_.qk_norm) {
      SCD_ASSIGN_OR_RETURN(w.q_norm, LoadVector(kQNorm, layer));
      SCD_ASSIGN_OR_RETURN(w.k_norm, LoadVector(kKNorm, layer));
    }
    SCD_ASSIGN_OR_RETURN(w.mlp_norm, LoadVector(kMlpNorm, layer));
    SCD_ASSIGN_OR_RETURN(w.gate_up, linears_.Load(layer, gate_up_matrices));
    SCD_ASSIGN_OR_RETURN(w.down, linears_.Load(layer, down_matrix));
    return w;
  }

  // As f32 in the backend's memory.
  absl::StatusOr<DeviceTensor> LoadVector(WeightKind kind, std::int64_t layer) const {
    SCD_ASSIGN_OR_RETURN(const HostTensor host, linears_.LoadChecked(kind, layer));
    return Upload(host.view(), DType::kF32);
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
  Backend& backend_;
  Stream& stream_;
  const WeightsFormat format_;
  LinearLoader linears_;
};

}  // namespace

absl::StatusOr<ModelWeights> LoadModelWeights(const ModelConfig& config, const WeightStore& store,
                                              Backend& backend, WeightsFormat format) {
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, backend.CreateStream());
  return WeightLoader(config, store, backend, *stream, format).Load();
}

}  // namespace scd
