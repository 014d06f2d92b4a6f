#include "client/load_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/report.h"

namespace scd {
namespace {

using nlohmann::json;

std::string Row(const char* name, const Distribution& d) {
  if (d.count() == 0) return absl::StrFormat("  %-13s %10s\n", name, "-");
  return absl::StrFormat("  %-13s %10.1f %10.1f %10.1f %10.1f\n", name, d.Percentile(50), d.Percentile(90),
                         d.Percentile(99), d.mean());
}

std::string Counts(const std::map<std::string, std::int64_t>& counts) {
  return absl::StrJoin(counts, ", ", absl::PairFormatter(" "));
}

json Figures(const Distribution& d) {
  if (d.count() == 0) return {{"count", 0}};
  return {{"count", d.count()},      {"mean", d.mean()},        {"p50", d.Percentile(50)},
          {"p90", d.Percentile(90)}, {"p99", d.Percentile(99)}, {"min", d.Percentile(0)},
          {"max", d.Percentile(100)}};
}

}  // namespace

std::string LevelName(std::uint32_t concurrency, double rate_per_s) {
  return concurrency > 0 ? absl::StrCat("concurrency ", concurrency)
                         : absl::StrFormat("%g requests/s", rate_per_s);
}

std::string DescribeLevel(const LevelResult& level) {
  std::string out = absl::StrFormat(
      "%s: %d requests in %.1f s, %d failed%s\n", LevelName(level.concurrency, level.rate_per_s),
      level.num_ok, level.seconds, level.num_failed(), level.interrupted ? " (interrupted)" : "");
  for (const auto& [code, failures] : level.errors) {
    absl::StrAppend(&out, "  error         ", code, " ", failures.count, ": ", failures.first_message, "\n");
  }
  absl::StrAppendFormat(&out, "  throughput    %.2f requests/s, %.1f output tokens/s, at most %d in flight\n",
                        level.requests_per_s(), level.output_tokens_per_s(), level.most_in_flight);
  absl::StrAppendFormat(&out, "  %-13s %10s %10s %10s %10s\n", "ms", "p50", "p90", "p99", "mean");
  out += Row("TTFT", level.ttft_ms) + Row("TPOT", level.tpot_ms) + Row("inter-token", level.inter_token_ms) +
         Row("end to end", level.end_to_end_ms);
  if (level.rate_per_s > 0) out += Row("start delay", level.start_delay_ms);
  absl::StrAppend(&out, "  prompts       ", level.prompt_tokens, " tokens: ", level.transferred_tokens,
                  " transferred (", level.stored_tokens, " of them stored), ", level.computed_tokens,
                  " computed, ", level.cached_tokens, " cached; the producer prefilled ",
                  level.producer_prefilled_tokens, "\n  received      ", ReadableBytes(level.received_bytes),
                  " (codes ", ReadableBytes(level.code_bytes), "); the prompts' raw bf16 KV is ",
                  ReadableBytes(level.raw_kv_bytes), "\n  served        ", Counts(level.modes),
                  level.reasons.empty() ? "" : absl::StrCat(" (", Counts(level.reasons), ")"), "\n");
  return out;
}

std::string DescribeSweep(const std::vector<LevelResult>& levels) {
  if (levels.size() < 2) return "";
  std::string out = absl::StrFormat("%-18s %6s %6s %9s %10s %10s %10s %9s %10s\n", "", "ok", "failed",
                                    "req/s", "tokens/s", "TTFT p50", "TTFT p99", "TPOT p50", "e2e p99");
  for (const LevelResult& level : levels) {
    absl::StrAppendFormat(&out, "%-18s %6d %6d %9.2f %10.1f %10.1f %10.1f %9.1f %10.1f\n",
                          LevelName(level.concurrency, level.rate_per_s), level.num_ok, level.num_failed(),
                          level.requests_per_s(), level.output_tokens_per_s(), level.ttft_ms.Percentile(50),
                          level.ttft_ms.Percentile(99), level.tpot_ms.Percentile(50),
                          level.end_to_end_ms.Percentile(99));
  }
  return out;
}

json ErrorsJson(const LevelResult& level) {
  json out = json::object();
  for (const auto& [code, failures] : level.errors) {
    out[code] = {{"count", failures.count}, {"first_message", failures.first_message}};
  }
  return out;
}

json LevelJson(const LevelResult& level) {
  json out = {
      {"loop", level.concurrency > 0 ? "closed" : "open"},
      {"most_in_flight", level.most_in_flight},
      {"interrupted", level.interrupted},
      {"requests_ok", level.num_ok},
      {"requests_failed", level.num_failed()},
      {"errors", ErrorsJson(level)},
      {"seconds", level.seconds},
      {"requests_per_s", level.requests_per_s()},
      {"output_tokens_per_s", level.output_tokens_per_s()},
      {"output_tokens", level.output_tokens},
      {"ttft_ms", Figures(level.ttft_ms)},
      {"tpot_ms", Figures(level.tpot_ms)},
      {"inter_token_ms", Figures(level.inter_token_ms)},
      {"end_to_end_ms", Figures(level.end_to_end_ms)},
      {"start_delay_ms", Figures(level.start_delay_ms)},
      {"reported_ms",
       {{"queue", Figures(level.queue_ms)},
        {"producer_queue", Figures(level.producer_queue_ms)},
        {"producer_prefill", Figures(level.producer_prefill_ms)},
        {"transfer", Figures(level.transfer_ms)},
        {"rebuild", Figures(level.rebuild_ms)},
        {"native", Figures(level.native_ms)},
        {"first_token", Figures(level.server_first_token_ms)}}},
      {"prompt_tokens",
       {{"all", level.prompt_tokens},
        {"transferred", level.transferred_tokens},
        {"stored", level.stored_tokens},
        {"computed", level.computed_tokens},
        {"cached", level.cached_tokens},
        {"producer_prefilled", level.producer_prefilled_tokens}}},
      {"bytes",
       {{"received", level.received_bytes}, {"codes", level.code_bytes}, {"raw_kv", level.raw_kv_bytes}}},
      {"modes", level.modes},
      {"reasons", level.reasons}};
  if (level.concurrency > 0) {
    out["concurrency"] = level.concurrency;
  } else {
    out["rate_per_s"] = level.rate_per_s;
  }
  return out;
}

json LoadJson(const LoadOptions& options) {
  const WorkloadOptions& w = options.workload;
  json workload;
  if (w.prompts_file) {
    workload["prompts_file"] = *w.prompts_file;
  } else if (w.shared_prefix_tokens > 0) {
    workload = {{"shared_prefix_tokens", w.shared_prefix_tokens},
                {"questions", w.questions},
                {"question_tokens", w.question_tokens}};
  } else {
    workload["prompt_tokens"] = w.prompt_tokens;
  }
  json out = {{"workload", std::move(workload)},
              {"seed", options.seed},
              {"channels", options.channels},
              {"stop_at_eos", options.stop_at_eos}};
  if (options.requests > 0) out["requests"] = options.requests;
  if (options.duration < absl::InfiniteDuration()) {
    out["duration_s"] = absl::ToDoubleSeconds(options.duration);
  }
  return out;
}

}  // namespace scd
