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
  return KvProjection{.k = weights.qkv.part(kKPart),
                      .v = weights.qkv.part(kVPart),
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
  const bool all_go_on = num_logit_rows_ == rows_;
  SCD_RETURN_IF_ERROR(MakeKv(last, all_go_on));
  if (num_logit_rows_ > 0) {
    if (!all_go_on) {
      SCD_RETURN_IF_ERROR(KeepLogitRows(chunks));
      SCD_RETURN_IF_ERROR(MakeQ(weights_.layers.back()));
      SCD_RETURN_IF_ERROR(backend_.Rope(stream_, ByHead(workspace_.q(rows_)), positions_, rope_));
    }
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
    SCD_RETURN_IF_ERROR(MakeKv(chunk.last_layer, false));
  } else {
    SCD_RETURN_IF_ERROR(RunLayer(chunk.last_layer));
    SCD_RETURN_IF_ERROR(backend_.Copy(stream_, chunk.residual_out, residual_));
  }
  return workspace_.PublishLogits(backend_, 0, false);
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
  return weights_.embedding.Embed(backend_, stream_,
                                  workspace_.host_ids().first(static_cast<std::size_t>(rows_)),
                                  workspace_.ids(rows_), residual_);
}

absl::Status ForwardPass::Continue(std::int64_t layer) const {
  if (!options_.cancel.stop_requested()) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat("cancelled before layer ", layer));
}

absl::Status ForwardPass::RunLayer(std::int64_t layer) {
  SCD_RETURN_IF_ERROR(Continue(layer));
  SCD_RETURN_IF_ERROR(MakeKv(layer, true));
  return AttendAndMlp(layer);
}

absl::Status ForwardPass::AttendAndMlp(std::int64_t layer) {
  const LayerWeights& w = weights_.layers[static_cast<std::size_t>(layer)];
  SCD_RETURN_IF_ERROR(Attend(layer, w));
  return Mlp(w);
}

TensorView ForwardPass::ByHead(const TensorView& rows) const {
  return rows.Reshaped({rows.dim(0), rows.dim(1) / config_.head_dim, config_.head_dim});
}

absl::Status ForwardPass::MakeKv(std::int64_t layer, bool with_q) {
  const LayerWeights& w = weights_.layers[static_cast<std::size_t>(layer)];
  const auto epsilon = static_cast<float>(config_.rms_norm_eps);
  SCD_RETURN_IF_ERROR(backend_.RmsNorm(stream_, residual_, w.attention_norm.view, epsilon, normed_));
  const TensorView k = workspace_.k(rows_);
  if (with_q) {
    SCD_RETURN_IF_ERROR(MultiplyPart(backend_, stream_, normed_, w.qkv.all(), workspace_.qkv(rows_)));
    SCD_RETURN_IF_ERROR(
        NormHeads(backend_, stream_, workspace_.q(rows_), config_.head_dim, w.q_norm.view, epsilon));
    SCD_RETURN_IF_ERROR(NormHeads(backend_, stream_, k, config_.head_dim, w.k_norm.view, epsilon));
  } else {
    SCD_RETURN_IF_ERROR(
        ProjectKv(backend_, stream_, MakeKvProjection(config_, w), normed_, k, workspace_.v(rows_)));
  }
  SCD_RETURN_IF_ERROR(ShowTap(layer));
  const TensorView turned = with_q ? workspace_.q_and_k(rows_) : k;
  SCD_RETURN_IF_ERROR(backend_.Rope(stream_, ByHead(turned), positions_, rope_));
  return WriteKv(layer);
}

absl::Status ForwardPass::WriteKv(std::int64_t layer) {
  const TensorView k = ByHead(workspace_.k(rows_));
  const TensorView v = ByHead(workspace_.v(rows_));
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    AttentionSequence& s = sequences_[i];
    s.kv = owners_[i]->view(layer);
    SCD_RETURN_IF_ERROR(backend_.WriteKv(stream_, k.rows(s.query_begin, s.query_count),
                                         v.rows(s.query_begin, s.query_count),
                                         positions_.rows(s.query_begin, s.query_count), s.kv));
  }
  return absl::OkStatus();
}

absl::Status ForwardPass::MakeQ(const LayerWeights& w) {
  const TensorView q = workspace_.q(rows_);
  SCD_RETURN_IF_ERROR(MultiplyPart(backend_, stream_, normed_, w.qkv.part(kQPart), q));
  return NormHeads(backend_, stream_, q, config_.head_dim, w.q_norm.view,
                   static_cast<float>(config_.rms_norm_eps));
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
  const TensorView attended = workspace_.attended(rows_);
  AttentionOptions options;
  options.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  if (!config_.sliding_window.empty()) {
    options.sliding_window = config_.sliding_window[static_cast<std::size_t>(layer)];
  }
  SCD_RETURN_IF_ERROR(
      backend_.Attention(stream_, ByHead(workspace_.q(rows_)), sequences_, options, ByHead(attended)));
  return MultiplyPart(backend_, stream_, attended, w.o.all(), residual_, true);
}

absl::Status ForwardPass::Mlp(const LayerWeights& w) {
  const TensorView gate = workspace_.gate(rows_);
  SCD_RETURN_IF_ERROR(backend_.RmsNorm(stream_, residual_, w.mlp_norm.view,
                                       static_cast<float>(config_.rms_norm_eps), normed_));
  SCD_RETURN_IF_ERROR(MultiplyPart(backend_, stream_, normed_, w.gate_up.all(), workspace_.gate_up(rows_)));
  SCD_RETURN_IF_ERROR(backend_.SwiGlu(stream_, gate, workspace_.up(rows_), gate));
  return MultiplyPart(backend_, stream_, gate, w.down.all(), residual_, true);
}

absl::Status ForwardPass::Head() {
  if (num_logit_rows_ > 0) {
    SCD_RETURN_IF_ERROR(backend_.RmsNorm(stream_, residual_, weights_.final_norm.view,
                                         static_cast<float>(config_.rms_norm_eps), normed_));
    SCD_RETURN_IF_ERROR(MultiplyPart(backend_, stream_, normed_, weights_.lm_head.all(),
                                     workspace_.head_output(num_logit_rows_)));
  }
  return workspace_.PublishLogits(backend_, num_logit_rows_, options_.leave_logits);
}

}  // namespace scd
