// Where the state that HeldOutEvaluator scores comes from.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibrate/held_out_evaluator.h"
#include "calibrate/held_out_item.h"
#include "calibrate/host_math.h"
#include "common/translate/layer_encoder.h"
#include "kernels/status_macros.h"

namespace scd {
absl::StatusOr<ConstTensorView> HeldOutEvaluator::LoadRows(const Item& item, std::int64_t layer,
                                                           CodeKind kind, PairSide side) {
  Backend& backend = consumer_.backend();
  const TraceShape& shape = store_.shape();
  const bool of_input = kind == CodeKind::kH || kind == CodeKind::kKV;
  const std::int64_t width = of_input ? shape.hidden : shape.d_kv;
  const TensorView all = rows_->View(DType::kF32, {item.transferred(), width});
  std::vector<float> rows;
  for (const TracePiece& piece : store_.pieces()) {
    const std::int64_t begin = std::max(piece.first_position, item.begin);
    const std::int64_t end = std::min(piece.first_position + piece.rows, item.end);
    if (piece.prefix != item.prefix || begin >= end) continue;
    switch (kind) {
      case CodeKind::kK:
        SCD_RETURN_IF_ERROR(store_.ReadK(piece, layer, side, &rows));
        break;
      case CodeKind::kV:
        SCD_RETURN_IF_ERROR(store_.ReadV(piece, layer, side, &rows));
        break;
      case CodeKind::kH:
      case CodeKind::kKV:
        SCD_RETURN_IF_ERROR(store_.ReadHidden(piece, layer, side, &rows));
        break;
      case CodeKind::kResidual:
        return absl::InternalError("residual rows are in no store");
    }
    SCD_RETURN_IF_ERROR(backend.Copy(
        workspace_->stream(), all.rows(begin - item.begin, end - begin),
        MatrixView(rows.data(), piece.rows, width).rows(begin - piece.first_position, end - begin)));
    SCD_RETURN_IF_ERROR(backend.Synchronize(workspace_->stream()));
  }
  return all;
}

absl::Status HeldOutEvaluator::WriteKv(Item& item, std::int64_t layer, PairSide side) {
  Backend& backend = consumer_.backend();
  const ModelConfig& config = consumer_.config();
  Stream& stream = workspace_->stream();
  const std::int64_t count = item.transferred();
  std::vector<std::int32_t> positions;
  for (std::int64_t p = item.begin; p < item.end; ++p) positions.push_back(static_cast<std::int32_t>(p));
  const TensorView device_positions = positions_->View(DType::kI32, {count});
  SCD_RETURN_IF_ERROR(
      backend.Copy(stream, device_positions, ConstTensorView(positions.data(), DType::kI32, Shape{count})));

  const Shape heads{count, config.num_kv_heads, config.head_dim};
  const PagedKv pages = item.sequence->view(layer);
  SCD_RETURN_IF_ERROR(LoadRows(item, layer, CodeKind::kK, side).status());
  const TensorView k = rows_->View(DType::kF32, heads);
  SCD_RETURN_IF_ERROR(backend.Rope(stream, k, device_positions, consumer_.rope()));
  SCD_RETURN_IF_ERROR(backend.WriteKv(stream, k, {}, device_positions, pages));
  SCD_RETURN_IF_ERROR(backend.Synchronize(stream));
  SCD_RETURN_IF_ERROR(LoadRows(item, layer, CodeKind::kV, side).status());
  SCD_RETURN_IF_ERROR(backend.WriteKv(stream, {}, rows_->View(DType::kF32, heads), device_positions, pages));
  return backend.Synchronize(stream);
}

absl::Status HeldOutEvaluator::WriteLayer(Item& item, std::int64_t layer, StateSource source) {
  StateSource& current = item.sources[static_cast<std::size_t>(layer)];
  if (current == source) return absl::OkStatus();
  current = StateSource::kNone;
  if (source == StateSource::kOracle || source == StateSource::kRaw) {
    const PairSide side = source == StateSource::kRaw ? PairSide::kProducer : PairSide::kConsumer;
    SCD_RETURN_IF_ERROR(WriteKv(item, layer, side));
  } else {
    const bool patch = source == StateSource::kPatch;
    const LayerRebuilder* rebuilder =
        coding_ == nullptr ? nullptr : (patch ? coding_->patch : coding_->reuse).get();
    if (rebuilder == nullptr) return absl::FailedPreconditionError("no bundle to rebuild this layer with");
    LayerRebuilder::Workspace& workspace = patch ? *coding_->patch_workspace : *coding_->reuse_workspace;
    const std::vector<CodeKind> kinds =
        patch ? std::vector<CodeKind>{CodeKind::kH} : std::vector<CodeKind>{CodeKind::kK, CodeKind::kV};
    for (const CodeKind kind : kinds) {
      const auto code = item.codes.find({layer, kind});
      if (code == item.codes.end()) {
        return absl::FailedPreconditionError(absl::StrCat("layer ", layer, " is no Patch candidate"));
      }
      SCD_RETURN_IF_ERROR(rebuilder->Rebuild(workspace, workspace_->stream(), code->second,
                                             [&](std::int64_t l) { return item.sequence->view(l); }));
    }
    SCD_RETURN_IF_ERROR(consumer_.backend().Synchronize(workspace_->stream()));
  }
  current = source;
  return absl::OkStatus();
}

absl::Status HeldOutEvaluator::Recompute(Item& item, const LayerRange& group) {
  const auto rows = item.residuals.find(group.first);
  if (rows == item.residuals.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the producer's residual stream at layer ", group.first, " was not kept"));
  }
  for (std::int64_t layer = group.first; layer <= group.last; ++layer) {
    item.sources[static_cast<std::size_t>(layer)] = StateSource::kNone;
  }
  const ConstTensorView residual =
      MatrixView(rows->second.data(), item.end, store_.shape().hidden).rows(item.begin, item.transferred());
  for (std::int64_t first = 0; first < item.transferred(); first += workspace_->max_rows()) {
    const std::int64_t count = std::min(workspace_->max_rows(), item.transferred() - first);
    SCD_RETURN_IF_ERROR(consumer_.ForwardLayers(*workspace_,
                                                {.sequence = item.sequence.get(),
                                                 .residual = residual.rows(first, count),
                                                 .first_position = item.begin + first,
                                                 .first_layer = group.first,
                                                 .last_layer = group.last},
                                                {.tap = nullptr, .cancel = stop_}));
  }
  return absl::OkStatus();
}

absl::Status HeldOutEvaluator::KeepResiduals(const Transformer& producer,
                                             absl::Span<const std::int64_t> layers) {
  for (const auto& item : items_) {
    SCD_ASSIGN_OR_RETURN(item->residuals,
                         CollectResiduals(producer, item->ids.first(static_cast<std::size_t>(item->end)),
                                          layers, workspace_->max_rows(), stop_));
  }
  return absl::OkStatus();
}

absl::Status HeldOutEvaluator::UseBundle(const Bundle& bundle) {
  Backend& backend = consumer_.backend();
  const BundleManifest& manifest = bundle.manifest();
  SCD_ASSIGN_OR_RETURN(const LayerPlan reuse_plan,
                       bundle.ResolvePlan({.patch_layers = std::vector<std::int64_t>()}));
  SCD_ASSIGN_OR_RETURN(const LayerPlan patch_plan,
                       bundle.ResolvePlan({.patch_layers = manifest.candidate_layers}));
  std::vector<KvProjection> projections;
  for (std::int64_t l = 0; l < manifest.num_layers; ++l) projections.push_back(consumer_.kv_projection(l));
  std::int64_t most = 1;
  for (const auto& item : items_) most = std::max(most, item->transferred());

  auto coding = std::make_unique<Coding>();
  SCD_ASSIGN_OR_RETURN(coding->reuse,
                       LayerRebuilder::Create(bundle, reuse_plan, projections, consumer_.rope(), backend));
  SCD_ASSIGN_OR_RETURN(coding->reuse_workspace, coding->reuse->CreateWorkspace(most));
  if (!manifest.candidate_layers.empty()) {
    SCD_ASSIGN_OR_RETURN(coding->patch,
                         LayerRebuilder::Create(bundle, patch_plan, projections, consumer_.rope(), backend));
    SCD_ASSIGN_OR_RETURN(coding->patch_workspace, coding->patch->CreateWorkspace(most));
  }

  // No RoPE is applied to what these plans send.
  SCD_ASSIGN_OR_RETURN(const auto reuse, LayerEncoder::Create(bundle, reuse_plan, consumer_.rope(), backend));
  SCD_ASSIGN_OR_RETURN(const auto reuse_workspace, reuse->CreateWorkspace(most));
  SCD_ASSIGN_OR_RETURN(const auto patch, LayerEncoder::Create(bundle, patch_plan, consumer_.rope(), backend));
  SCD_ASSIGN_OR_RETURN(const auto patch_workspace, patch->CreateWorkspace(most));
  for (const auto& item : items_) {
    item->codes.clear();
    for (StateSource& source : item->sources) source = StateSource::kNone;
    const auto encode = [&](const LayerEncoder& encoder, LayerEncoder::Workspace& workspace,
                            std::int64_t layer, CodeKind kind) -> absl::Status {
      SCD_ASSIGN_OR_RETURN(const ConstTensorView rows, LoadRows(*item, layer, kind, PairSide::kProducer));
      SCD_ASSIGN_OR_RETURN(item->codes[std::make_pair(layer, kind)],
                           encoder.Encode(workspace, workspace_->stream(), layer, kind, rows, item->begin));
      return absl::OkStatus();
    };
    for (std::int64_t layer = 0; layer < manifest.num_layers; ++layer) {
      SCD_RETURN_IF_ERROR(encode(*reuse, *reuse_workspace, layer, CodeKind::kK));
      SCD_RETURN_IF_ERROR(encode(*reuse, *reuse_workspace, layer, CodeKind::kV));
    }
    for (const std::int64_t layer : manifest.candidate_layers) {
      SCD_RETURN_IF_ERROR(encode(*patch, *patch_workspace, layer, CodeKind::kH));
    }
  }
  coding_ = std::move(coding);
  return absl::OkStatus();
}

}  // namespace scd
