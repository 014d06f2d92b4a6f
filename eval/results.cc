#include "eval/results.h"

#include <cmath>
#include <utility>

namespace scd {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinities and no NaN.
Json Number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json Integer(const std::optional<std::int64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json MachineJson(const MachineInfo& machine) {
  return {{"cpu", machine.cpu},
          {"cores", machine.cores},
          {"memory_gib", std::round(machine.memory_gib * 10) / 10},
          {"os", machine.os}};
}

Json PairJson(const PairDescription& pair) {
  return {{"producer", {{"description", pair.producer.description}, {"digest", pair.producer.digest}}},
          {"consumer", {{"description", pair.consumer.description}, {"digest", pair.consumer.digest}}},
          {"bundle", {{"path", pair.bundle_path}, {"digest", pair.bundle_digest}}},
          {"plan", pair.plan},
          {"backend", pair.backend},
          {"num_layers", pair.num_layers},
          {"d_kv", pair.d_kv}};
}

Json DataJson(const DataDescription& data) {
  return {
      {"windows",
       {{"source", data.window_source},
        {"count", data.num_windows},
        {"scored_tokens", data.num_scored_tokens}}},
      {"questions",
       {{"source", data.question_source}, {"count", data.num_questions}, {"max_tokens", data.max_tokens}}}};
}

Json ModeJson(const ModeFigures& figures, double raw_bytes_per_token) {
  const TransferSpec& spec = figures.row.spec;
  Json out = {{"mode", spec.mode},
              {"row", figures.row.name},
              {"group", figures.row.group},
              {"native_head", spec.native_head},
              {"native_tail", spec.native_tail},
              {"plan", figures.plan},
              {"codec", figures.codec.empty() ? Json(nullptr) : Json(figures.codec)},
              {"bytes_per_token", figures.bytes_per_token}};
  out["code_bytes_per_transferred_token"] = Number(figures.code_bytes_per_transferred_token);
  out["percent_of_raw"] =
      raw_bytes_per_token > 0 ? Json(100 * figures.bytes_per_token / raw_bytes_per_token) : Json(nullptr);
  out["f1"] = Number(figures.f1);
  out["exact"] = Number(figures.exact);
  out["ppl"] = Number(figures.ppl);
  out["kl"] = Number(figures.kl);
  out["tv"] = Number(figures.tv);
  out["kl_answer"] = Number(figures.kl_answer);
  out["first_difference"] = Number(figures.first_difference);
  out["ttft_ms_cold"] = Number(figures.ttft_ms_cold);
  out["ttft_ms_codes_ready"] = Number(figures.ttft_ms_codes_ready);
  out["ttft_ms_native"] = Number(figures.ttft_ms_native);
  return out;
}

Json LatencyJson(const LatencyFigures& figures) {
  const StageTimes& stages = figures.stages;
  return {{"mode", figures.mode},
          {"row", figures.row},
          {"prefix_tokens", figures.prefix_tokens},
          {"link_mbit_s", Number(figures.link_mbit_s)},
          {"measured", figures.measured},
          {"ttft_ms_cold", Number(figures.ttft_ms_cold)},
          {"ttft_ms_codes_ready", Number(figures.ttft_ms_codes_ready)},
          {"ttft_ms_native", Number(figures.ttft_ms_native)},
          {"bytes", figures.bytes},
          {"wire_ms", Number(figures.wire_ms)},
          {"stages_ms",
           {{"queue", stages.queue},
            {"producer_queue", stages.producer_queue},
            {"producer_prefill", stages.producer_prefill},
            {"producer_encode", stages.producer_encode},
            {"first_frame", stages.first_frame},
            {"transfer", stages.transfer},
            {"rebuild", stages.rebuild},
            {"native", stages.native}}}};
}

Json AblationJson(const AblationResults& ablation) {
  Json rows = Json::array();
  for (const AblationFigures& figures : ablation.rows) {
    rows.push_back({{"rank_k", Integer(figures.rank_k)},
                    {"rank_v", Integer(figures.rank_v)},
                    {"rank_h", Integer(figures.rank_h)},
                    {"patch_layers", figures.patch_layers},
                    {"num_patch_layers", figures.patch_layers.size()},
                    {"distortion", Number(figures.distortion)},
                    {"calibration_prefixes", Integer(figures.calibration_prefixes)},
                    {"bytes_per_token", figures.bytes_per_token},
                    {"kl", Number(figures.kl)},
                    {"ppl", Number(figures.ppl)},
                    {"tv", Number(figures.tv)},
                    {"kl_answer", Number(figures.kl_answer)},
                    {"ttft_ms_codes_ready", Number(figures.ttft_ms_codes_ready)}});
  }
  return {{"name", ablation.name}, {"rows", std::move(rows)}};
}

}  // namespace

Json ResultsJson(const Results& results) {
  const std::int64_t raw = results.pair.raw_bytes_per_token();
  Json out = {{"schema", kResultsSchema},       {"created", results.created},
              {"commands", results.commands},   {"machine", MachineJson(results.machine)},
              {"pair", PairJson(results.pair)}, {"data", DataJson(results.data)},
              {"raw_bytes_per_token", raw}};
  if (results.interrupted) out["interrupted"] = true;
  if (!results.error.empty()) out["error"] = results.error;
  Json modes = Json::array();
  for (const ModeFigures& figures : results.modes) {
    modes.push_back(ModeJson(figures, static_cast<double>(raw)));
  }
  if (!modes.empty()) out["modes"] = std::move(modes);
  Json latency = Json::array();
  for (const LatencyFigures& figures : results.latency) latency.push_back(LatencyJson(figures));
  if (!latency.empty()) {
    out["latency"] = {{"prefix_tokens", results.latency_prefix_tokens}, {"rows", std::move(latency)}};
  }
  Json ablations = Json::array();
  for (const AblationResults& ablation : results.ablations) {
    if (!ablation.rows.empty()) ablations.push_back(AblationJson(ablation));
  }
  if (!ablations.empty()) out["ablations"] = std::move(ablations);
  if (results.drift) out["drift"] = Json(*results.drift);
  return out;
}

std::string ResultsText(const Json& document) {
  return document.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace scd
