// Time to first token by prefix length: cold, with the codes in the producer's store, and native. Measured on
// the link that there is, and computed for others.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "eval/commands.h"
#include "eval/computed_latency.h"
#include "eval/statistics.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Tokens of the windows, one after the other, repeated where they are not enough: times do not depend on what
// a prompt says.
std::vector<std::int32_t> PromptOf(const EvalData& data, std::int64_t tokens) {
  std::vector<std::int32_t> all;
  while (static_cast<std::int64_t>(all.size()) < tokens) {
    for (const EvalWindow& window : data.windows) {
      all.insert(all.end(), window.prefix.begin(), window.prefix.end());
      all.insert(all.end(), window.continuation.begin(), window.continuation.end());
    }
  }
  all.resize(static_cast<std::size_t>(tokens));
  return all;
}

absl::StatusOr<std::vector<ModeRow>> ChosenRows(const EvalConfig& config) {
  const std::vector<ModeRow> all = RepeatForCodecs(config.rows, config.eval.codecs);
  std::vector<ModeRow> rows;
  const auto wanted = [&config](const ModeRow& row) {
    if (row.spec.is_local()) return false;
    if (row.group != config.latency.group) return false;
    const std::vector<std::string>& names = config.latency.rows;
    return names.empty() || std::find(names.begin(), names.end(), row.name) != names.end();
  };
  std::copy_if(all.begin(), all.end(), std::back_inserter(rows), wanted);
  for (const std::string& name : config.latency.rows) {
    const bool known =
        std::any_of(rows.begin(), rows.end(), [&](const ModeRow& row) { return row.name == name; });
    if (!known) {
      return absl::InvalidArgumentError(
          absl::StrCat("latency.rows: no row \"", name, "\" in group \"", config.latency.group, "\""));
    }
  }
  if (rows.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("latency.group: no row is in group \"", config.latency.group, "\""));
  }
  return rows;
}

// Medians over repeats of what one row takes for one prompt.
class LatencyProbe {
 public:
  LatencyProbe(PairSession& session, std::int64_t repeats, Progress& progress)
      : session_(session), repeats_(repeats), progress_(progress) {}

  absl::StatusOr<double> Native(const EvalPrompt& prompt) {
    const ResolvedRow local{
        .row = {.name = "local", .group = "", .spec = {}}, .plan = std::nullopt, .plan_text = ""};
    std::vector<double> times;
    for (std::int64_t i = 0; i < repeats_; ++i) {
      SCD_ASSIGN_OR_RETURN(const GeneratedText answer, session_.Generate(local, prompt, kOneToken));
      times.push_back(answer.transfer.first_token_ms);
      progress_.Add(1);
    }
    return Median(times).value_or(0);
  }

  absl::StatusOr<LatencyFigures> Transferred(const ResolvedRow& row, const EvalPrompt& prompt) {
    std::vector<TransferFigures> cold;
    std::vector<double> ready;
    for (std::int64_t i = 0; i < repeats_; ++i) {
      SCD_ASSIGN_OR_RETURN(const GeneratedText answer, session_.Generate(row, prompt, kOneToken));
      cold.push_back(answer.transfer);
      progress_.Add(1);
    }
    for (std::int64_t i = 0; i < repeats_; ++i) {
      SCD_ASSIGN_OR_RETURN(const std::optional<double> ttft, TtftCodesReady(session_, row, prompt));
      if (ttft) ready.push_back(*ttft);
      progress_.Add(1);
    }
    return MedianOf(row, cold, ready);
  }

 private:
  static LatencyFigures MedianOf(const ResolvedRow& row, const std::vector<TransferFigures>& cold,
                                 std::vector<double> ready) {
    const auto median = [&cold](auto value) {
      std::vector<double> values;
      for (const TransferFigures& figures : cold) values.push_back(static_cast<double>(value(figures)));
      return Median(std::move(values)).value_or(0);
    };
    const auto stage = [&median](double StageTimes::*member) {
      return median([member](const TransferFigures& f) { return f.stages.*member; });
    };
    LatencyFigures figures;
    figures.mode = row.row.spec.mode;
    figures.row = row.row.name;
    figures.bytes = median([](const TransferFigures& f) { return f.received_bytes; });
    figures.ttft_ms_cold = median([](const TransferFigures& f) { return f.first_token_ms; });
    figures.ttft_ms_codes_ready = Median(std::move(ready));
    figures.stages = {.queue = stage(&StageTimes::queue),
                      .producer_queue = stage(&StageTimes::producer_queue),
                      .producer_prefill = stage(&StageTimes::producer_prefill),
                      .producer_encode = stage(&StageTimes::producer_encode),
                      .first_frame = stage(&StageTimes::first_frame),
                      .transfer = stage(&StageTimes::transfer),
                      .rebuild = stage(&StageTimes::rebuild),
                      .native = stage(&StageTimes::native)};
    return figures;
  }

  static inline const AnswerOptions kOneToken{.max_tokens = 1, .stop = {}};
  PairSession& session_;
  const std::int64_t repeats_;
  Progress& progress_;
};

absl::Status MeasureLengths(EvalRun& run, PairSession& session, const std::vector<ResolvedRow>& rows) {
  const LatencyConfig& config = run.config.latency;
  const auto num_lengths = static_cast<std::int64_t>(config.prefix_tokens.size());
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  Progress progress(run.log, run.progress, "latency", "requests",
                    num_lengths * config.repeats * (1 + 2 * num_rows) + num_rows);
  const std::optional<double> link =
      run.options.link_mbit_s > 0 ? std::optional<double>(run.options.link_mbit_s) : std::nullopt;
  LatencyProbe probe(session, config.repeats, progress);
  std::vector<double> native;
  for (const std::int64_t tokens : config.prefix_tokens) {
    SCD_ASSIGN_OR_RETURN(const double time, probe.Native({.text = "", .ids = PromptOf(run.data, tokens)}));
    native.push_back(time);
  }
  for (const ResolvedRow& row : rows) {
    // Makes the plan's maps ready on both sides, untimed.
    const EvalPrompt shortest{.text = "", .ids = PromptOf(run.data, config.prefix_tokens.front())};
    SCD_RETURN_IF_ERROR(session.Generate(row, shortest, {.max_tokens = 1, .stop = {}}).status());
    progress.Add(1);
    for (std::size_t i = 0; i < native.size(); ++i) {
      const std::int64_t tokens = config.prefix_tokens[i];
      SCD_ASSIGN_OR_RETURN(LatencyFigures figures,
                           probe.Transferred(row, {.text = "", .ids = PromptOf(run.data, tokens)}));
      figures.prefix_tokens = tokens;
      figures.link_mbit_s = link;
      figures.ttft_ms_native = native[i];
      run.results.latency.push_back(figures);
      // Computed from loopback alone: a measured link's time is in the measured figures already.
      if (link) continue;
      for (const std::int64_t mbit_s : config.links_mbit_s) {
        run.results.latency.push_back(ComputedLatency(figures, static_cast<double>(mbit_s)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunLatency(EvalRun& run) {
  if (run.data.windows.empty()) {
    return absl::InvalidArgumentError("data.windows: latency makes its prompts of them, and there are none");
  }
  SCD_ASSIGN_OR_RETURN(const std::vector<ModeRow> chosen, ChosenRows(run.config));
  SCD_ASSIGN_OR_RETURN(const auto pair, OpenPair(run, run.config));
  SCD_ASSIGN_OR_RETURN(const std::vector<ResolvedRow> rows,
                       ResolveRows(pair->session(), RowsOfTheBundle(pair->session(), chosen, run.log)));
  run.results.latency_prefix_tokens = run.config.latency.prefix_tokens;
  return pair->Explain(MeasureLengths(run, pair->session(), rows));
}

}  // namespace scd
