#include "common/model/transformer.h"

#include <algorithm>
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

 private:
  absl::Status CheckChunk(const ForwardChunk& chunk) const;

  const ModelConfig config_;
  Backend& backend_;
  const std::int64_t max_positions_;
  const ModelWeights weights_;
  const std::unique_ptr<RopeTables> rope_;
};

absl::Status Transformer::Impl::CheckChunk(const ForwardChunk& chunk) const {
  if (chunk.sequence == nullptr) return absl::InvalidArgumentError("it has no sequence");
  if (chunk.tokens.empty()) return absl::InvalidArgumentError("it has no tokens");
  for (std::size_t i = 0; i < chunk.tokens.size(); ++i) {
    if (chunk.tokens[i] < 0 || chunk.tokens[i] >= config_.vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", i, " is ", chunk.tokens[i], ", the vocabulary has ", config_.vocab_size));
    }
  }
  const KvLayout& layout = chunk.sequence->layout();
  if (layout.num_layers != config_.num_layers || layout.num_kv_heads != config_.num_kv_heads ||
      layout.head_dim != config_.head_dim) {
    return absl::InvalidArgumentError("its sequence's pages have another layout than the model's KV");
  }
  const auto count = static_cast<std::int64_t>(chunk.tokens.size());
  const std::int64_t limit = std::min(max_positions_, chunk.sequence->max_tokens());
  if (chunk.first_position < 0 || chunk.first_position > limit - count) {
    return absl::OutOfRangeError(
        absl::StrCat(count, " tokens from position ", chunk.first_position, ", the limit is ", limit));
  }
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
  if (workspace.sizes() != Sizes(workspace.max_rows(), workspace.max_logit_rows())) {
    return absl::InvalidArgumentError("forward: the workspace was made for another model");
  }
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
  SCD_ASSIGN_OR_RETURN(ModelWeights packed, LoadModelWeights(config, weights, backend));
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

absl::StatusOr<std::unique_ptr<Transformer::Workspace>> Transformer::CreateWorkspace(
    std::int64_t max_rows, std::int64_t max_logit_rows) const {
  return ForwardWorkspace::Create(impl_->backend(), impl_->Sizes(max_rows, max_logit_rows));
}

absl::Status Transformer::Forward(Workspace& workspace, absl::Span<const ForwardChunk> chunks,
                                  const ForwardOptions& options) const {
  auto* const memory = dynamic_cast<ForwardWorkspace*>(&workspace);
  if (memory == nullptr) return absl::InvalidArgumentError("forward: the workspace is not a transformer's");
  SCD_RETURN_IF_ERROR(impl_->CheckPass(*memory, chunks));

  ForwardPass pass(impl_->config(), impl_->weights(), impl_->rope(), impl_->backend(), *memory, chunks,
                   options);
  const absl::Status ran = pass.Run();
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

KvProjection Transformer::kv_projection(std::int64_t layer) const {
  return MakeKvProjection(impl_->config(), impl_->weights().layers[static_cast<std::size_t>(layer)]);
}

const RopeTable& Transformer::rope() const {
  return impl_->rope();
}

}  // namespace scd
