#include "common/model/transformer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/model/forward_pass.h"
#include "common/model/forward_workspace.h"
#include "common/model/model_weights.h"
#include "common/model/rope.h"
#include "kernels/status_macros.h"

namespace scd {

class Transformer::Impl {
 public:
  Impl(const ModelConfig& config, Backend& backend, std::int64_t max_positions, ModelWeights weights,
       std::unique_ptr<RopeTables> rope)
      : config_(config),
        backend_(backend),
        max_positions_(max_positions),
        weights_(std::move(weights)),
        rope_(std::move(rope)) {}

  const ModelConfig& config() const { return config_; }
  Backend& backend() const { return backend_; }
  std::int64_t max_positions() const { return max_positions_; }
  const ModelWeights& weights() const { return weights_; }
  const RopeTable& rope() const { return rope_->table(); }

  WorkspaceSizes Sizes(std::int64_t max_rows, std::int64_t max_logit_rows) const {
    return WorkspaceSizes{max_rows,          max_logit_rows, config_.hidden_size,
                          config_.d_q(),     config_.d_kv(), config_.intermediate_size,
                          config_.vocab_size};
  }

  // Everything that Forward promises to check before it touches anything.
  absl::Status CheckPass(const ForwardWorkspace& workspace, absl::Span<const ForwardChunk> chunks) const;
  // The same of ForwardLayers.
  absl::Status CheckLayers(const ForwardWorkspace& workspace, const LayerChunk& chunk) const;

 private:
  absl::Status CheckWorkspace(const ForwardWorkspace& workspace) const;
  absl::Status CheckChunk(const ForwardChunk& chunk) const;
  // That a sequence's pages fit the model, and that it has room for the positions.
  absl::Status CheckLayout(const Sequence* sequence) const;
  absl::Status CheckPositions(const Sequence& sequence, std::int64_t first, std::int64_t count) const;
  // A [rows, hidden] operand of ForwardLayers.
  absl::Status CheckResidual(const ConstTensorView& view, std::int64_t rows, const char* name) const;

  const ModelConfig config_;
  Backend& backend_;
  const std::int64_t max_positions_;
  const ModelWeights weights_;
  const std::unique_ptr<RopeTables> rope_;
};

absl::Status Transformer::Impl::CheckWorkspace(const ForwardWorkspace& workspace) const {
  if (workspace.sizes() == Sizes(workspace.max_rows(), workspace.max_logit_rows())) return absl::OkStatus();
  return absl::InvalidArgumentError("forward: the workspace was made for another model");
}

absl::Status Transformer::Impl::CheckLayout(const Sequence* sequence) const {
  if (sequence == nullptr) return absl::InvalidArgumentError("it has no sequence");
  const KvLayout& layout = sequence->layout();
  if (layout.num_layers != config_.num_layers || layout.num_kv_heads != config_.num_kv_heads ||
      layout.head_dim != config_.head_dim) {
    return absl::InvalidArgumentError("its sequence's pages have another layout than the model's KV");
  }
  return absl::OkStatus();
}

absl::Status Transformer::Impl::CheckPositions(const Sequence& sequence, std::int64_t first,
                                               std::int64_t count) const {
  const std::int64_t limit = std::min(max_positions_, sequence.max_tokens());
  if (first >= 0 && first <= limit - count) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat(count, " tokens from position ", first, ", the limit is ", limit));
}

absl::Status Transformer::Impl::CheckChunk(const ForwardChunk& chunk) const {
  SCD_RETURN_IF_ERROR(CheckLayout(chunk.sequence));
  if (chunk.tokens.empty()) return absl::InvalidArgumentError("it has no tokens");
  for (std::size_t i = 0; i < chunk.tokens.size(); ++i) {
    if (chunk.tokens[i] < 0 || chunk.tokens[i] >= config_.vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", i, " is ", chunk.tokens[i], ", the vocabulary has ", config_.vocab_size));
    }
  }
  SCD_RETURN_IF_ERROR(
      CheckPositions(*chunk.sequence, chunk.first_position, static_cast<std::int64_t>(chunk.tokens.size())));
  const std::int64_t valid = chunk.sequence->valid_length();
  if (valid < chunk.first_position) {
    return absl::FailedPreconditionError(absl::StrCat("it begins at position ", chunk.first_position,
                                                      ", only the first ", valid,
                                                      " of its sequence are valid"));
  }
  return absl::OkStatus();
}

absl::Status Transformer::Impl::CheckPass(const ForwardWorkspace& workspace,
                                          absl::Span<const ForwardChunk> chunks) const {
  SCD_RETURN_IF_ERROR(CheckWorkspace(workspace));
  if (chunks.empty()) return absl::InvalidArgumentError("forward: no chunks");
  std::int64_t rows = 0;
  std::int64_t logit_rows = 0;
  std::vector<const Sequence*> sequences;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (const absl::Status status = CheckChunk(chunks[i]); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("forward: chunk ", i, ": ", status.message()));
    }
    rows += static_cast<std::int64_t>(chunks[i].tokens.size());
    logit_rows += NumLogitRows(chunks[i]);
    sequences.push_back(chunks[i].sequence);
  }
  if (rows > workspace.max_rows() || logit_rows > workspace.max_logit_rows()) {
    return absl::InvalidArgumentError(absl::StrCat("forward: ", rows, " rows and ", logit_rows,
                                                   " of logits, the workspace holds ", workspace.max_rows(),
                                                   " and ", workspace.max_logit_rows()));
  }
  std::sort(sequences.begin(), sequences.end());
  if (std::adjacent_find(sequences.begin(), sequences.end()) != sequences.end()) {
    return absl::InvalidArgumentError("forward: a sequence has two chunks");
  }
  return absl::OkStatus();
}

absl::Status Transformer::Impl::CheckResidual(const ConstTensorView& view, std::int64_t rows,
                                              const char* name) const {
  if (view.empty() || view.rank() != 2 || view.dtype() != DType::kF32 || view.dim(0) != rows ||
      view.dim(1) != config_.hidden_size || view.stride(1) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "forward: ", name, " is ", std::string(DTypeName(view.dtype())), " ", view.shape().ToString(),
        ", expected f32 ", Shape{rows, config_.hidden_size}.ToString(), " with contiguous rows"));
  }
  if (view.device() != Device::kHost && view.device() != backend_.device()) {
    return absl::InvalidArgumentError(absl::StrCat("forward: ", name, " is on another device"));
  }
  return absl::OkStatus();
}

absl::Status Transformer::Impl::CheckLayers(const ForwardWorkspace& workspace,
                                            const LayerChunk& chunk) const {
  SCD_RETURN_IF_ERROR(CheckWorkspace(workspace));
  if (chunk.first_layer < 0 || chunk.first_layer > chunk.last_layer ||
      chunk.last_layer >= config_.num_layers) {
    return absl::OutOfRangeError(absl::StrCat("forward: layers ", chunk.first_layer, "..", chunk.last_layer,
                                              ", the model has ", config_.num_layers));
  }
  const std::int64_t rows = chunk.residual.rank() == 2 ? chunk.residual.dim(0) : 0;
  if (rows < 1 || rows > workspace.max_rows()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "forward: residual has ", rows, " rows, expected 1 to the workspace's ", workspace.max_rows()));
  }
  SCD_RETURN_IF_ERROR(CheckResidual(chunk.residual, rows, "residual"));
  if (!chunk.residual_out.empty()) {
    SCD_RETURN_IF_ERROR(CheckResidual(chunk.residual_out, rows, "residual_out"));
  }
  absl::Status status = CheckLayout(chunk.sequence);
  if (status.ok()) status = CheckPositions(*chunk.sequence, chunk.first_position, rows);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("forward: the chunk: ", status.message()));
}

Transformer::Transformer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Transformer::~Transformer() = default;

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Create(const ModelConfig& config,
                                                                 const WeightStore& weights, Backend& backend,
                                                                 const TransformerOptions& options) {
  SCD_RETURN_IF_ERROR(config.Validate("model"));
  if (options.max_positions < 0 || options.max_positions > config.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat("transformer: max_positions is ", options.max_positions,
                                                   ", expected 0 to the model's ", config.max_positions));
  }
  const std::int64_t max_positions =
      options.max_positions == 0 ? config.max_positions : options.max_positions;
  SCD_ASSIGN_OR_RETURN(
      std::unique_ptr<RopeTables> rope,
      RopeTables::Create(backend, ComputeRopeFrequencies(config.rope, config.head_dim), max_positions));
  SCD_ASSIGN_OR_RETURN(ModelWeights packed, LoadModelWeights(config, weights, backend, options.weights));
  return absl::WrapUnique(new Transformer(
      std::make_unique<Impl>(config, backend, max_positions, std::move(packed), std::move(rope))));
}

const ModelConfig& Transformer::config() const {
  return impl_->config();
}

Backend& Transformer::backend() const {
  return impl_->backend();
}

std::int64_t Transformer::max_positions() const {
  return impl_->max_positions();
}

const std::string& Transformer::weights_description() const {
  return impl_->weights().formats;
}

std::int64_t Transformer::weight_bytes() const {
  return impl_->weights().matrix_bytes + impl_->weights().embedding.size_bytes();
}

std::int64_t Transformer::step_bytes() const {
  return impl_->weights().matrix_bytes;
}

std::int64_t Transformer::workspace_bytes(std::int64_t max_rows, std::int64_t max_logit_rows) const {
  return impl_->Sizes(max_rows, max_logit_rows).device_bytes();
}

absl::StatusOr<std::unique_ptr<Transformer::Workspace>> Transformer::CreateWorkspace(
    std::int64_t max_rows, std::int64_t max_logit_rows) const {
  return ForwardWorkspace::Create(impl_->backend(), impl_->Sizes(max_rows, max_logit_rows));
}

absl::Status Transformer::Forward(Workspace& workspace, absl::Span<const ForwardChunk> chunks,
                                  const ForwardOptions& options) const {
  auto* const memory = dynamic_cast<ForwardWorkspace*>(&workspace);
  if (memory == nullptr) return absl::InvalidArgumentError("forward: the workspace is not a transformer's");
  SCD_RETURN_IF_ERROR(impl_->CheckPass(*memory, chunks));

  ForwardPass pass(impl_->config(), impl_->weights(), impl_->rope(), impl_->backend(), *memory, options);
  const absl::Status ran = pass.Run(chunks);
  // Queued work reads and writes the workspace: nothing of it may be left when this returns, in failure too.
  const absl::Status synchronised = impl_->backend().Synchronize(memory->stream());
  SCD_RETURN_IF_ERROR(ran);
  SCD_RETURN_IF_ERROR(synchronised);
  for (const ForwardChunk& chunk : chunks) {
    SCD_RETURN_IF_ERROR(chunk.sequence->MarkValid(
        chunk.first_position, chunk.first_position + static_cast<std::int64_t>(chunk.tokens.size())));
  }
  return absl::OkStatus();
}

absl::Status Transformer::ForwardLayers(Workspace& workspace, const LayerChunk& chunk,
                                        const ForwardOptions& options) const {
  auto* const memory = dynamic_cast<ForwardWorkspace*>(&workspace);
  if (memory == nullptr) return absl::InvalidArgumentError("forward: the workspace is not a transformer's");
  SCD_RETURN_IF_ERROR(impl_->CheckLayers(*memory, chunk));

  ForwardPass pass(impl_->config(), impl_->weights(), impl_->rope(), impl_->backend(), *memory, options);
  const absl::Status ran = pass.RunLayers(chunk);
  const absl::Status synchronised = impl_->backend().Synchronize(memory->stream());
  SCD_RETURN_IF_ERROR(ran);
  return synchronised;
}

KvProjection Transformer::kv_projection(std::int64_t layer) const {
  return MakeKvProjection(impl_->config(), impl_->weights().layers[static_cast<std::size_t>(layer)]);
}

const RopeTable& Transformer::rope() const {
  return impl_->rope();
}

}  // namespace scd
