// Whole plans measured on held-out prefixes, with codes as they are sent.
#include <algorithm>
#include <utility>

#include "calibrate/held_out_evaluator.h"
#include "calibrate/held_out_item.h"
#include "common/translate/layer_encoder.h"
#include "common/wire/payload_format.h"
#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<PlanScore> HeldOutEvaluator::ScorePlan(const Bundle& bundle, const LayerPlan& plan) {
  Backend& backend = consumer_.backend();
  Stream& stream = workspace_->stream();
  std::vector<KvProjection> projections;
  for (std::int64_t l = 0; l < store_.shape().num_layers; ++l) {
    projections.push_back(consumer_.kv_projection(l));
  }
  std::int64_t most = 1, tokens = 0;
  for (const auto& item : items_) {
    most = std::max(most, item->transferred());
    tokens += item->transferred();
  }
  // No RoPE is applied to codes.
  SCD_ASSIGN_OR_RETURN(const auto encoder, LayerEncoder::Create(bundle, plan, consumer_.rope(), backend));
  SCD_ASSIGN_OR_RETURN(const auto encoder_workspace, encoder->CreateWorkspace(most));
  SCD_ASSIGN_OR_RETURN(const auto rebuilder,
                       LayerRebuilder::Create(bundle, plan, projections, consumer_.rope(), backend));
  SCD_ASSIGN_OR_RETURN(const auto rebuilder_workspace, rebuilder->CreateWorkspace(most));

  std::size_t bytes = 0;
  const auto transfer = [&](Item& item, std::int64_t layer, CodeKind kind) -> absl::Status {
    SCD_ASSIGN_OR_RETURN(const ConstTensorView rows, LoadRows(item, layer, kind, PairSide::kProducer));
    for (std::int64_t begin = item.begin; begin < item.end;) {
      const std::int64_t end = EndOfCode(plan.codec, kind, begin, item.end);
      SCD_ASSIGN_OR_RETURN(const LayerCode code,
                           encoder->Encode(*encoder_workspace, stream, layer, kind,
                                           rows.rows(begin - item.begin, end - begin), begin));
      bytes += code.payload.size();
      SCD_RETURN_IF_ERROR(rebuilder->Rebuild(*rebuilder_workspace, stream, code,
                                             [&item](std::int64_t l) { return item.sequence->view(l); }));
      SCD_RETURN_IF_ERROR(backend.Synchronize(stream));
      begin = end;
    }
    return absl::OkStatus();
  };
  for (const auto& item : items_) {
    for (std::size_t layer = 0; layer < plan.layers.size(); ++layer) {
      if (stop_.stop_requested()) return absl::CancelledError("stopped while a plan was measured");
      item->sources[layer] = StateSource::kNone;
      if (plan.CodeComesLater(static_cast<std::int64_t>(layer))) {
        SCD_ASSIGN_OR_RETURN(const ConstTensorView rows, LoadRows(*item, static_cast<std::int64_t>(layer),
                                                                  CodeKind::kKV, PairSide::kProducer));
        SCD_RETURN_IF_ERROR(
            encoder->Keep(*encoder_workspace, stream, static_cast<std::int64_t>(layer), rows, item->begin));
      }
      for (const SentKind& sent : SentKinds(plan.layers[layer])) {
        SCD_RETURN_IF_ERROR(transfer(*item, static_cast<std::int64_t>(layer), sent.kind));
      }
    }
  }
  PlanScore score;
  score.bytes_per_token = static_cast<double>(bytes) / static_cast<double>(tokens);
  SCD_ASSIGN_OR_RETURN(score.quality, ScorePages());
  return score;
}

}  // namespace scd
