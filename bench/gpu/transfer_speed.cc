#include "bench/gpu/transfer_speed.h"

#include <algorithm>
#include <utility>

#include "kernels/status_macros.h"
#include "producer/encoding_tap.h"

namespace scd {

absl::StatusOr<std::unique_ptr<TransferBenchmark>> TransferBenchmark::Create(const ModelRig& rig,
                                                                             const Bundle& bundle,
                                                                             const std::string& form) {
  std::unique_ptr<TransferBenchmark> b(new TransferBenchmark(rig, form));
  PlanRequest request;
  request.form = form == "fused" ? StateForm::kFused : StateForm::kCodes;
  if (form == "reuse") request.patch_layers.emplace();
  SCD_ASSIGN_OR_RETURN(const LayerPlan plan, bundle.ResolvePlan(request));
  b->head_ = plan.native_head;
  b->tail_ = plan.native_tail;
  const BundleManifest& m = bundle.manifest();
  b->mlp_width_ = m.mlp_width;
  std::vector<KvProjection> projections;
  for (std::int64_t i = 0; i < m.num_layers; ++i) projections.push_back(rig.transformer().kv_projection(i));
  const RopeTable& rope = rig.transformer().rope();
  SCD_ASSIGN_OR_RETURN(b->stream_, rig.backend().CreateStream());
  SCD_ASSIGN_OR_RETURN(b->encoder_.encoder, LayerEncoder::Create(bundle, plan, rope, rig.backend()));
  SCD_ASSIGN_OR_RETURN(b->encoder_.workspace, b->encoder_.encoder->CreateWorkspace(rig.shape().chunk));
  SCD_ASSIGN_OR_RETURN(b->rebuilder_, LayerRebuilder::Create(bundle, plan, projections, rope, rig.backend()));
  SCD_ASSIGN_OR_RETURN(b->rebuilding_, b->rebuilder_->CreateWorkspace(rig.shape().chunk));
  return b;
}

double TransferBenchmark::RebuildFlopPerToken() const {
  const ModelConfig& c = rig_.shape().model;
  std::int64_t numbers = 0;  // of the decoders' matrices
  for (const LayerRanks& layer : rebuilder_->plan().layers) {
    numbers += (layer.rank_k + layer.rank_v) * c.d_kv();
    if (layer.treatment == LayerTreatment::kPatch) {
      numbers += layer.rank_h * mlp_width_ + (layer.rank_h + mlp_width_) * 2 * c.d_kv();
    }
    numbers += layer.rank_kv * 2 * c.d_kv();
  }
  return 2.0 * static_cast<double>(numbers);
}

absl::Status TransferBenchmark::Produce(Sequence& sequence, std::int64_t end) {
  codes_.clear();
  for (std::int64_t begin = 0; begin < end;) {
    const std::int64_t next = std::min(begin + rig_.shape().chunk, end);
    EncodingTap tap(encoder_, begin, next, head_,
                    [this](LayerCode code) { codes_.push_back(std::move(code)); });
    SCD_RETURN_IF_ERROR(rig_.Prefill(sequence, begin, next, LogitsWanted::kNone, {.tap = &tap}));
    SCD_RETURN_IF_ERROR(tap.Finish());
    begin = next;
  }
  return absl::OkStatus();
}

absl::Status TransferBenchmark::Rebuild(Sequence& sequence) {
  for (const LayerCode& code : codes_) {
    SCD_RETURN_IF_ERROR(rebuilder_->Rebuild(
        *rebuilding_, *stream_, code, [&sequence](std::int64_t layer) { return sequence.view(layer); }));
  }
  return rig_.backend().Synchronize(*stream_);
}

absl::Status TransferBenchmark::ComputeRest(Sequence& sequence, std::int64_t end, std::int64_t tokens) {
  SCD_RETURN_IF_ERROR(rig_.Prefill(sequence, 0, head_, LogitsWanted::kNone));
  return rig_.Prefill(sequence, end, tokens, LogitsWanted::kLast);
}

absl::StatusOr<nlohmann::json> TransferBenchmark::Measure(std::int64_t tokens, double native_seconds,
                                                          const std::vector<double>& links_gbit_per_s,
                                                          const Peaks& peaks, const Turns& turns) {
  const std::int64_t end = tokens - 1 - tail_;
  const auto coded = static_cast<double>(end - head_);
  SCD_ASSIGN_OR_RETURN(const auto produced, Sequence::Create(rig_.cache(), tokens));
  SCD_ASSIGN_OR_RETURN(const auto rebuilt, Sequence::Create(rig_.cache(), tokens));
  SCD_ASSIGN_OR_RETURN(const Timing producing, turns.Measure([&] { return Produce(*produced, end); }));
  SCD_ASSIGN_OR_RETURN(const Timing rebuilding, turns.Measure([&] { return Rebuild(*rebuilt); }));
  SCD_RETURN_IF_ERROR(rebuilt->MarkValid(head_, end));
  SCD_ASSIGN_OR_RETURN(const Timing rest, turns.Measure([&] { return ComputeRest(*rebuilt, end, tokens); }));

  std::size_t bytes = 0;
  for (const LayerCode& code : codes_) bytes += code.payload.size();
  const double raw_bytes = coded * static_cast<double>(rig_.shape().model.raw_kv_bytes_per_token());
  const double flop_per_s = RebuildFlopPerToken() * coded / rebuilding.median();
  nlohmann::json row = {{"form", form_},
                        {"tokens", tokens},
                        {"native_ms", 1e3 * native_seconds},
                        {"producer_ms", 1e3 * producing.median()},
                        {"rebuild_ms", 1e3 * rebuilding.median()},
                        {"rest_ms", 1e3 * rest.median()},
                        {"runs", rebuilding.seconds.size()},
                        {"code_bytes", bytes},
                        {"of_raw_bytes", static_cast<double>(bytes) / raw_bytes},
                        {"rebuild_tokens_per_s", coded / rebuilding.median()},
                        {"rebuild_tflop_per_s", 1e-12 * flop_per_s},
                        {"rebuild_of_product_peak", flop_per_s / peaks.product_flop_per_s},
                        {"rebuild_code_mb_per_s", 1e-6 * static_cast<double>(bytes) / rebuilding.median()},
                        {"links", nlohmann::json::array()}};
  for (const double gbit_per_s : links_gbit_per_s) {
    const double wire = 8e-9 * static_cast<double>(bytes) / gbit_per_s;
    const double apart = rebuilding.median() + wire;
    const double together = std::max(rebuilding.median(), wire);
    row["links"].push_back(
        {{"gbit_per_s", gbit_per_s},
         {"computed_wire_ms", 1e3 * wire},
         {"computed_ready_ms", 1e3 * (apart + rest.median())},
         {"computed_ready_overlapped_ms", 1e3 * (together + rest.median())},
         {"computed_cold_ms", 1e3 * (producing.median() + apart + rest.median())},
         {"computed_cold_overlapped_ms", 1e3 * (std::max(producing.median(), together) + rest.median())}});
  }
  return row;
}

}  // namespace scd
