#include "eval/drift/drift_taps.h"

#include <utility>

#include "common/model/code_rows.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

const LayerRanks& RanksOf(const PlanRun& run, std::int64_t layer) {
  return run.plan.layers[static_cast<std::size_t>(layer)];
}

}  // namespace

absl::Status CopyToHost(Backend& backend, Stream& stream, ConstTensorView rows, std::vector<float>& out) {
  out.resize(static_cast<std::size_t>(rows.num_elements()));
  SCD_RETURN_IF_ERROR(backend.Copy(stream, TensorView(out.data(), DType::kF32, rows.shape()), rows));
  return backend.Synchronize(stream);
}

absl::StatusOr<PlanRun> PlanRun::Create(const Transformer& producer, const Transformer& consumer,
                                        const Bundle& bundle, const LayerPlan& plan, std::int64_t max_rows) {
  PlanRun run;
  run.plan = plan;
  Backend& backend = consumer.backend();
  SCD_ASSIGN_OR_RETURN(run.encoder, LayerEncoder::Create(bundle, plan, producer.rope(), backend));
  SCD_ASSIGN_OR_RETURN(run.encoder_workspace, run.encoder->CreateWorkspace(max_rows));
  std::vector<KvProjection> projections;
  for (std::int64_t layer = 0; layer < consumer.config().num_layers; ++layer) {
    projections.push_back(consumer.kv_projection(layer));
  }
  SCD_ASSIGN_OR_RETURN(run.rebuilder,
                       LayerRebuilder::Create(bundle, plan, projections, consumer.rope(), backend));
  SCD_ASSIGN_OR_RETURN(run.rebuilder_workspace, run.rebuilder->CreateWorkspace(max_rows));
  const auto bytes = static_cast<std::size_t>(max_rows * consumer.config().d_kv()) * sizeof(float);
  SCD_ASSIGN_OR_RETURN(run.decoded_k, backend.Allocate(MemoryKind::kDevice, bytes));
  SCD_ASSIGN_OR_RETURN(run.decoded_v, backend.Allocate(MemoryKind::kDevice, bytes));
  run.codes.resize(plan.layers.size());
  return run;
}

CodingTap::CodingTap(std::vector<PlanRun>& runs, const TransferredRows& rows) : runs_(runs), rows_(rows) {
  for (PlanRun& run : runs_) {
    for (std::vector<LayerCode>& codes : run.codes) codes.clear();
  }
}

TapKinds CodingTap::Wanted(std::int64_t layer) const {
  TapKinds wanted;
  if (rows_.count == 0) return wanted;
  for (const PlanRun& run : runs_) {
    for (const SentKind& sent : SentKinds(RanksOf(run, layer))) wanted = wanted | TapFor(sent.kind);
  }
  return wanted;
}

absl::Status CodingTap::OnLayer(const LayerView& view) {
  for (PlanRun& run : runs_) {
    for (const SentKind& sent : SentKinds(RanksOf(run, view.layer))) {
      const ConstTensorView rows = RowsFor(sent.kind, view).rows(rows_.first_row, rows_.count);
      SCD_ASSIGN_OR_RETURN(LayerCode code,
                           run.encoder->Encode(*run.encoder_workspace, *view.stream, view.layer, sent.kind,
                                               rows, rows_.first_position));
      run.codes[static_cast<std::size_t>(view.layer)].push_back(std::move(code));
    }
  }
  return absl::OkStatus();
}

ComparingTap::ComparingTap(Backend& backend, std::vector<PlanRun>& runs, const TransferredRows& rows)
    : backend_(backend), runs_(runs), rows_(rows) {}

TapKinds ComparingTap::Wanted(std::int64_t) const {
  return rows_.count == 0 ? TapKinds() : TapKind::kKPreRope | TapKind::kV;
}

absl::Status ComparingTap::OnLayer(const LayerView& view) {
  Stream& stream = *view.stream;
  const auto layer = static_cast<std::size_t>(view.layer);
  SCD_RETURN_IF_ERROR(
      CopyToHost(backend_, stream, view.k_pre_rope.rows(rows_.first_row, rows_.count), native_k_));
  SCD_RETURN_IF_ERROR(CopyToHost(backend_, stream, view.v.rows(rows_.first_row, rows_.count), native_v_));
  const Shape shape{rows_.count, view.v.dim(1)};
  for (PlanRun& run : runs_) {
    const TensorView k = run.decoded_k->View(DType::kF32, shape);
    const TensorView v = run.decoded_v->View(DType::kF32, shape);
    for (const LayerCode& code : run.codes[layer]) {
      SCD_RETURN_IF_ERROR(run.rebuilder->Decode(*run.rebuilder_workspace, stream, code, k, v));
      SCD_RETURN_IF_ERROR(
          run.rebuilder->Rebuild(*run.rebuilder_workspace, stream, code,
                                 [&](std::int64_t layer) { return run.rebuilt->view(layer); }));
    }
    SCD_RETURN_IF_ERROR(CopyToHost(backend_, stream, k, decoded_));
    run.sums.k[layer].Add(decoded_, native_k_);
    SCD_RETURN_IF_ERROR(CopyToHost(backend_, stream, v, decoded_));
    run.sums.v[layer].Add(decoded_, native_v_);
  }
  return absl::OkStatus();
}

TapKinds ResidualTap::Wanted(std::int64_t) const {
  return TapKind::kResidual;
}

absl::Status ResidualTap::OnLayer(const LayerView& view) {
  return CopyToHost(backend_, *view.stream, view.residual, entering.emplace_back());
}

}  // namespace scd
