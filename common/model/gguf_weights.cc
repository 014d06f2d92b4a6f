#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/gguf_blocks.h"
#include "common/model/gguf_model.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

const char* NameInFile(WeightKind kind) {
  switch (kind) {
    case WeightKind::kEmbedding:
      return "token_embd.weight";
    case WeightKind::kFinalNorm:
      return "output_norm.weight";
    case WeightKind::kLmHead:
      return "output.weight";
    case WeightKind::kAttentionNorm:
      return "attn_norm.weight";
    case WeightKind::kQ:
      return "attn_q.weight";
    case WeightKind::kK:
      return "attn_k.weight";
    case WeightKind::kV:
      return "attn_v.weight";
    case WeightKind::kO:
      return "attn_output.weight";
    case WeightKind::kQBias:
      return "attn_q.bias";
    case WeightKind::kKBias:
      return "attn_k.bias";
    case WeightKind::kVBias:
      return "attn_v.bias";
    case WeightKind::kOBias:
      return "attn_output.bias";
    case WeightKind::kQNorm:
      return "attn_q_norm.weight";
    case WeightKind::kKNorm:
      return "attn_k_norm.weight";
    case WeightKind::kMlpNorm:
      return "ffn_norm.weight";
    case WeightKind::kGate:
      return "ffn_gate.weight";
    case WeightKind::kUp:
      return "ffn_up.weight";
    case WeightKind::kDown:
      return "ffn_down.weight";
    case WeightKind::kGateBias:
      return "ffn_gate.bias";
    case WeightKind::kUpBias:
      return "ffn_up.bias";
    case WeightKind::kDownBias:
      return "ffn_down.bias";
  }
  return "";
}

std::string TensorName(WeightKind kind, std::int64_t layer) {
  return layer < 0 ? NameInFile(kind) : absl::StrCat("blk.", layer, ".", NameInFile(kind));
}

// Row of the file that holds row `row` of a head in rotate-half order. Llama files keep the two halves of a
// head interleaved, so that the elements that turn together lie side by side.
std::int64_t InterleavedRow(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t half = head_dim / 2;
  const std::int64_t in_head = row % head_dim;
  return row - in_head + in_head % half * 2 + in_head / half;
}

class GgufWeightStore final : public StoredWeights {
 public:
  GgufWeightStore(std::shared_ptr<const GgufFile> file, const ModelConfig& config)
      : file_(std::move(file)),
        head_dim_(config.head_dim),
        interleaved_(config.architecture == Architecture::kLlama ||
                     config.architecture == Architecture::kMistral) {}

  void Bind(WeightKind kind, std::int64_t layer, const GgufTensor& tensor) {
    weights_[{kind, layer}] = tensor;
  }

  absl::StatusOr<HostTensor> Load(WeightKind kind, std::int64_t layer) const override {
    SCD_ASSIGN_OR_RETURN(const GgufTensor tensor, Find(kind, layer));
    HostTensor out = Reordered(kind) ? FromInterleavedRows(tensor) : AsStored(tensor);
    SCD_RETURN_IF_ERROR(CheckFinite(out.view(), file_->path(), TensorName(kind, layer)));
    return out;
  }

  absl::StatusOr<std::optional<StoredBlocks>> LoadBlocks(WeightKind kind, std::int64_t layer) const override {
    SCD_ASSIGN_OR_RETURN(const GgufTensor tensor, Find(kind, layer));
    if (!IsBlockType(tensor.type)) return std::nullopt;
    const bool reordered = Reordered(kind);
    auto converted =
        ConvertBlocks(tensor.type, tensor.data.data(), tensor.shape[0], tensor.shape[1],
                      [&](std::int64_t row) { return reordered ? InterleavedRow(row, head_dim_) : row; });
    if (!converted.ok())
      return file_->Error(TensorName(kind, layer), std::string(converted.status().message()));
    std::string name = GgmlTypeName(tensor.type);
    if (!converted->exact) absl::StrAppend(&name, " as int8");
    return StoredBlocks{std::move(converted->matrix), converted->exact, std::move(name)};
  }

  absl::StatusOr<StoredTensor> Stored(WeightKind kind, std::int64_t layer) const override {
    SCD_ASSIGN_OR_RETURN(const GgufTensor tensor, Find(kind, layer));
    return StoredTensor{GgmlTypeName(tensor.type), tensor.shape, tensor.data};
  }

 private:
  bool Reordered(WeightKind kind) const {
    return interleaved_ && (kind == WeightKind::kQ || kind == WeightKind::kK || kind == WeightKind::kQBias ||
                            kind == WeightKind::kKBias);
  }

  // A view into the mapping for the float types, else f32.
  static HostTensor AsStored(const GgufTensor& tensor) {
    switch (tensor.type) {
      case GgmlType::kF32:
        return HostTensor(ConstTensorView(tensor.data.data(), DType::kF32, tensor.shape));
      case GgmlType::kF16:
        return HostTensor(ConstTensorView(tensor.data.data(), DType::kF16, tensor.shape));
      case GgmlType::kBF16:
        return HostTensor(ConstTensorView(tensor.data.data(), DType::kBF16, tensor.shape));
      default:
        break;
    }
    std::vector<float> values(static_cast<std::size_t>(tensor.shape.num_elements()));
    DequantiseBlocks(tensor.type, tensor.data.data(),
                     tensor.shape.num_elements() / GgmlBlockElements(tensor.type), values.data());
    return HostTensor(std::move(values), tensor.shape);
  }

  // The rows of Q or K, weights or biases, in rotate-half order, f32.
  HostTensor FromInterleavedRows(const GgufTensor& tensor) const {
    std::vector<float> values(static_cast<std::size_t>(tensor.shape.num_elements()));
    const std::int64_t rows = tensor.shape[0];
    const std::int64_t columns = tensor.shape.num_elements() / rows;
    const std::int64_t blocks = columns / GgmlBlockElements(tensor.type);
    const std::int64_t row_bytes = blocks * GgmlBlockBytes(tensor.type);
    for (std::int64_t row = 0; row < rows; ++row) {
      DequantiseBlocks(tensor.type, tensor.data.data() + InterleavedRow(row, head_dim_) * row_bytes, blocks,
                       values.data() + row * columns);
    }
    return HostTensor(std::move(values), tensor.shape);
  }

  absl::StatusOr<GgufTensor> Find(WeightKind kind, std::int64_t layer) const {
    const auto it = weights_.find({kind, layer});
    if (it == weights_.end()) {
      return absl::NotFoundError(
          absl::StrCat(file_->path(), ": ", TensorName(kind, layer), ": not a weight of this model"));
    }
    return it->second;
  }

  const std::shared_ptr<const GgufFile> file_;
  const std::int64_t head_dim_;
  const bool interleaved_;
  std::map<std::pair<WeightKind, std::int64_t>, GgufTensor> weights_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StoredWeights>> OpenGgufWeights(std::shared_ptr<const GgufFile> file,
                                                               const ModelConfig& config) {
  auto store = std::make_unique<GgufWeightStore>(file, config);
  std::set<std::string> used = {"rope_freqs.weight"};  // ParseGgufRope has dealt with it
  const auto bind = [&](WeightKind kind, std::int64_t layer) -> absl::Status {
    const std::string name = TensorName(kind, layer);
    const auto it = file->tensors().find(name);
    if (it == file->tensors().end())
      return file->Error(name, "missing, although the hyper-parameters ask for it");
    const GgufTensor& tensor = it->second;
    const Shape expected = WeightShape(config, kind);
    if (!(tensor.shape == expected)) {
      return file->Error(name, absl::StrCat("expected shape ", expected.ToString(),
                                            " by the hyper-parameters, got ", tensor.shape.ToString()));
    }
    if (expected.rank() == 1 && IsBlockType(tensor.type)) {
      return file->Error(name, absl::StrCat("expected f32, f16 or bf16, got ", GgmlTypeName(tensor.type)));
    }
    store->Bind(kind, layer, tensor);
    used.insert(name);
    return absl::OkStatus();
  };
  for (const WeightKind kind : ModelWeightKinds(config)) SCD_RETURN_IF_ERROR(bind(kind, -1));
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (const WeightKind kind : LayerWeightKinds(config)) SCD_RETURN_IF_ERROR(bind(kind, layer));
  }
  for (const auto& [name, tensor] : file->tensors()) {
    if (!used.contains(name)) return file->Error(name, "the architecture has no such tensor");
  }
  if (config.tie_word_embeddings) {
    SCD_ASSIGN_OR_RETURN(const GgufTensor embedding, file->Tensor(TensorName(WeightKind::kEmbedding, -1)));
    store->Bind(WeightKind::kLmHead, -1, embedding);
  }
  return store;
}

}  // namespace scd
