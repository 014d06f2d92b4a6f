#include "common/model/forward_pass.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

std::int64_t NumRows(const ForwardChunk& chunk) {
  return static_cast<std::int64_t>(chunk.tokens.size());
}

}  // namespace

KvProjection MakeKvProjection(const ModelConfig& config, const LayerWeights& weights) {
  return KvProjection{.k = {.weight = weights.k.get()},
                      .v = {.weight = weights.v.get()},
                      .k_norm = weights.k_norm.view,
                      .norm_epsilon = static_cast<float>(config.rms_norm_eps),
                      .num_kv_heads = config.num_kv_heads,
                      .head_dim = config.head_dim};
}

std::int64_t NumLogitRows(const ForwardChunk& chunk) {
  switch (chunk.logits) {
    case LogitsWanted::kNone:
      return 0;
    case LogitsWanted::kLast:
      return 1;
    case LogitsWanted::kAll:
      return NumRows(chunk);
  }
  return 0;
}

ForwardPass::ForwardPass(const ModelConfig& config, const ModelWeights& weights, const RopeTable& rope,
                         Backend& backend, ForwardWorkspace& workspace, const ForwardOptions& options)
    : config_(config),
      weights_(weights),
      rope_(rope),
      backend_(backend),
      workspace_(workspace),
      stream_(workspace.stream()),
      options_(options) {}

absl::Status ForwardPass::Run(absl::Span<const ForwardChunk> chunks) {
  for (const ForwardChunk& chunk : chunks) {
    AddRows(chunk.sequence, NumRows(chunk), chunk.first_position);
    num_logit_rows_ += NumLogitRows(chunk);
  }
  SCD_RETURN_IF_ERROR(PlaceRows());
  SCD_RETURN_IF_ERROR(Embed(chunks));
  const std::int64_t last = config_.num_layers - 1;
  for (std::int64_t layer = 0; layer < last; ++layer) SCD_RETURN_IF_ERROR(RunLayer(layer));
  SCD_RETURN_IF_ERROR(Continue(last));
  SCD_RETURN_IF_ERROR(MakeKv(last));
  if (num_logit_rows_ > 0) {
    SCD_RETURN_IF_ERROR(KeepLogitRows(chunks));
    SCD_RETURN_IF_ERROR(AttendAndMlp(last));
  }
  if (options_.cancel.stop_requested()) return absl::CancelledError("cancelled before the head");
  return Head();
}

absl::Status ForwardPass::RunLayers(const LayerChunk& chunk) {
  AddRows(chunk.sequence, chunk.residual.dim(0), chunk.first_position);
  SCD_RETURN_IF_ERROR(PlaceRows());
  SCD_RETURN_IF_ERROR(backend_.Copy(stream_, residual_, chunk.residual));
  for (std::int64_t layer = chunk.first_layer; layer < chunk.last_layer; ++layer) {
    SCD_RETURN_IF_ERROR(RunLayer(layer));
  }
  if (chunk.residual_out.empty()) {
    SCD_RETURN_IF_ERROR(Continue(chunk.last_layer));
    SCD_RETURN_IF_ERROR(MakeKv(chunk.last_layer));
  } else {
    SCD_RETURN_IF_ERROR(RunLayer(chunk.last_layer));
    SCD_RETURN_IF_ERROR(backend_.Copy(stream_, chunk.residual_out, residual_));
  }
  return workspace_.PublishLogits(backend_, 0);
}

void ForwardPass::AddRows(const Sequence* sequence, std::int64_t count, std::int64_t first_position) {
  sequences_.push_back(AttentionSequence{rows_, count, first_position, {}});
  owners_.push_back(sequence);
  const absl::Span<std::int32_t> positions = workspace_.host_positions();
  for (std::int64_t i = 0; i < count; ++i, ++rows_) {
    positions[static_cast<std::size_t>(rows_)] = static_cast<std::int32_t>(first_position + i);
  }
}

absl::Status ForwardPass::PlaceRows() {
  residual_ = workspace_.residual(rows_);
  normed_ = workspace_.normed(rows_);
  positions_ = workspace_.positions(rows_);
  return workspace_.UploadPositions(backend_, rows_);
}

absl::Status ForwardPass::Embed(absl::Span<const ForwardChunk> chunks) {
  auto id = workspace_.host_ids().begin();
  for (const ForwardChunk& chunk : chunks) id = std::copy(chunk.tokens.begin(), chunk.tokens.end(), id);
  SCD_RETURN_IF_ERROR(workspace_.UploadIds(backend_, rows_));
  return backend_.Embed(stream_, weights_.embedding.view, workspace_.ids(rows_), residual_);
}

absl::Status ForwardPass::Continue(std::int64_t layer) const {
  if (!options_.cancel.stop_requested()) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat("cancelled before layer ", layer));
}

absl::Status ForwardPass::RunLayer(std::int64_t layer) {
  SCD_RETURN_IF_ERROR(Continue(layer));
  SCD_RETURN_IF_ERROR(MakeKv(layer));
  return AttendAndMlp(layer);
}

absl::Status ForwardPass::AttendAndMlp(std::int64_t layer) {
  const LayerWeights& w = weights_.layers[static_cast<std::size_t>(layer)];
  SCD_RETURN_IF_ERROR(Attend(layer, w));
  return Mlp(w);
}

absl::Status ForwardPass::MakeKv(std::int64_t layer) {
  const LayerWeights& w = weights_.layers[static_cast<std::size_t>(layer)];
  SCD_RETURN_IF_ERROR(backend_.RmsNorm(stream_, residual_, w.attention_norm.view,
                                       static_cast<float>(config_.rms_norm_eps), normed_));
  const TensorView k = workspace_.k(rows_);
  const TensorView v = workspace_.v(rows_);
  SCD_RETURN_IF_ERROR(ProjectKv(backend_, stream_, MakeKvProjection(config_, w), normed_, k, v));
  SCD_RETURN_IF_ERROR(ShowTap(layer));
  const TensorView k_heads = k.Reshaped({rows_, config_.num_kv_heads, config_.head_dim});
  const TensorView v_heads = v.Reshaped({rows_, config_.num_kv_heads, config_.head_dim});
  SCD_RETURN_IF_ERROR(backend_.Rope(stream_, k_heads, positions_, rope_));
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    AttentionSequence& s = sequences_[i];
    s.kv = owners_[i]->view(layer);
    SCD_RETURN_IF_ERROR(backend_.WriteKv(stream_, k_heads.rows(s.query_begin, s.query_count),
                                         v_heads.rows(s.query_begin, s.query_count),
                                         positions_.rows(s.query_begin, s.query_count), s.kv));
  }
  return absl::OkStatus();
}

absl::Status ForwardPass::ShowTap(std::int64_t layer) {
  if (options_.tap == nullptr) return absl::OkStatus();
  const TapKinds wanted = options_.tap->Wanted(layer);
  if (wanted.empty()) return absl::OkStatus();
  LayerView view;
  view.layer = layer;
  view.stream = &stream_;
  if (wanted.Has(TapKind::kKPreRope)) view.k_pre_rope = workspace_.k(rows_);
  if (wanted.Has(TapKind::kV)) view.v = workspace_.v(rows_);
  if (wanted.Has(TapKind::kAttentionInput)) view.attention_input = normed_;
  if (wanted.Has(TapKind::kResidual)) view.residual = residual_;
  return options_.tap->OnLayer(view);
}

absl::Status ForwardPass::KeepLogitRows(absl::Span<const ForwardChunk> chunks) {
  if (num_logit_rows_ == rows_) return absl::OkStatus();
  const TensorView kept_residual = workspace_.kept_residual(num_logit_rows_);
  const TensorView kept_normed = workspace_.kept_normed(num_logit_rows_);
  const TensorView kept_positions = workspace_.kept_positions(num_logit_rows_);
  std::vector<AttentionSequence> kept;
  std::vector<const Sequence*> kept_owners;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const std::int64_t count = NumLogitRows(chunks[i]);
    if (count == 0) continue;
    AttentionSequence s = sequences_[i];
    const std::int64_t skipped = s.query_count - count;
    const std::int64_t from = s.query_begin + skipped;
    SCD_RETURN_IF_ERROR(
        backend_.Copy(stream_, kept_residual.rows(begin, count), residual_.rows(from, count)));
    SCD_RETURN_IF_ERROR(backend_.Copy(stream_, kept_normed.rows(begin, count), normed_.rows(from, count)));
    SCD_RETURN_IF_ERROR(
        backend_.Copy(stream_, kept_positions.rows(begin, count), positions_.rows(from, count)));
    s.query_begin = begin;
    s.query_count = count;
    s.first_position += skipped;
    kept.push_back(s);
    kept_owners.push_back(owners_[i]);
    begin += count;
  }
  rows_ = num_logit_rows_;
  residual_ = kept_residual;
  normed_ = kept_normed;
  positions_ = kept_positions;
  sequences_ = std::move(kept);
  owners_ = std::move(kept_owners);
  return absl::OkStatus();
}

absl::Status ForwardPass::Attend(std::int64_t layer, const LayerWeights& w) {
  const TensorView q = workspace_.q(rows_);
  const TensorView attended = workspace_.attended(rows_);
  SCD_RETURN_IF_ERROR(backend_.MatMul(stream_, normed_, *w.q, q));
  if (!w.q_norm.view.empty()) {
    const TensorView heads = q.Reshaped({rows_ * config_.num_heads, config_.head_dim});
    SCD_RETURN_IF_ERROR(
        backend_.RmsNorm(stream_, heads, w.q_norm.view, static_cast<float>(config_.rms_norm_eps), heads));
  }
  const Shape by_head{rows_, config_.num_heads, config_.head_dim};
  SCD_RETURN_IF_ERROR(backend_.Rope(stream_, q.Reshaped(by_head), positions_, rope_));
  AttentionOptions options;
  options.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  if (!config_.sliding_window.empty()) {
    options.sliding_window = config_.sliding_window[static_cast<std::size_t>(layer)];
  }
  SCD_RETURN_IF_ERROR(
      backend_.Attention(stream_, q.Reshaped(by_head), sequences_, options, attended.Reshaped(by_head)));
  return backend_.MatMul(stream_, attended, *w.o, residual_, {.accumulate = true});
}

absl::Status ForwardPass::Mlp(const LayerWeights& w) {
  const TensorView gate = workspace_.gate(rows_);
  const TensorView up = workspace_.up(rows_);
  SCD_RETURN_IF_ERROR(backend_.RmsNorm(stream_, residual_, w.mlp_norm.view,
                                       static_cast<float>(config_.rms_norm_eps), normed_));
  SCD_RETURN_IF_ERROR(backend_.MatMul(stream_, normed_, *w.gate, gate));
  SCD_RETURN_IF_ERROR(backend_.MatMul(stream_, normed_, *w.up, up));
  SCD_RETURN_IF_ERROR(backend_.SwiGlu(stream_, gate, up, gate));
  return backend_.MatMul(stream_, gate, *w.down, residual_, {.accumulate = true});
}

absl::Status ForwardPass::Head() {
  if (num_logit_rows_ > 0) {
    SCD_RETURN_IF_ERROR(backend_.RmsNorm(stream_, residual_, weights_.final_norm.view,
                                         static_cast<float>(config_.rms_norm_eps), normed_));
    SCD_RETURN_IF_ERROR(
        backend_.MatMul(stream_, normed_, *weights_.lm_head, workspace_.head_output(num_logit_rows_)));
  }
  return workspace_.PublishLogits(backend_, num_logit_rows_);
}

}  // namespace scd
