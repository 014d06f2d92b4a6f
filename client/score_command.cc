#include <cmath>

#include "absl/strings/str_format.h"
#include "client/command_result.h"
#include "client/commands.h"
#include "client/report.h"
#include "client/requests.h"

namespace scd {
namespace {

// Sums over a continuation. The last position predicts what would follow and has no token of its own.
struct Summary {
  int num_tokens = 0;
  double logprob_sum = 0.0;
  double native_logprob_sum = 0.0;
  double kl_mean = 0.0;
  double tv_mean = 0.0;

  double perplexity() const { return num_tokens > 0 ? std::exp(-logprob_sum / num_tokens) : 1.0; }
};

Summary Summarise(const v1::ScoreResponse& response) {
  Summary summary;
  const int size = response.positions_size();
  for (int i = 0; i < size; ++i) {
    const v1::PositionScore& position = response.positions(i);
    summary.kl_mean += position.kl() / size;
    summary.tv_mean += position.tv() / size;
    if (i + 1 == size) break;
    ++summary.num_tokens;
    summary.logprob_sum += position.logprob();
    summary.native_logprob_sum += position.native_logprob();
  }
  return summary;
}

void WriteText(const v1::ScoreResponse& response, const Options& options, const Summary& summary,
               std::ostream& out) {
  if (options.positions) {
    for (const v1::PositionScore& position : response.positions()) {
      out << absl::StrFormat("%8d  logprob %10.5f", position.token_id(), position.logprob());
      if (options.compare_with_native) {
        out << absl::StrFormat("  native %10.5f  kl %.6f  tv %.6f", position.native_logprob(), position.kl(),
                               position.tv());
      }
      out << "\n";
    }
  }
  out << absl::StrFormat("%d tokens, log-probability %.5f, perplexity %.4f\n", summary.num_tokens,
                         summary.logprob_sum, summary.perplexity());
  if (options.compare_with_native) {
    out << absl::StrFormat(
        "against native prefill: log-probability %.5f there, KL %.6f, total variation %.6f\n",
        summary.native_logprob_sum, summary.kl_mean, summary.tv_mean);
  }
}

nlohmann::json ScoreJson(const v1::ScoreResponse& response, const Options& options, const Summary& summary) {
  nlohmann::json positions = nlohmann::json::array();
  for (const v1::PositionScore& position : response.positions()) {
    nlohmann::json entry = {{"token_id", position.token_id()}, {"logprob", position.logprob()}};
    if (options.compare_with_native) {
      entry["native_logprob"] = position.native_logprob();
      entry["kl"] = position.kl();
      entry["tv"] = position.tv();
    }
    positions.push_back(std::move(entry));
  }
  nlohmann::json out = {{"num_tokens", summary.num_tokens},
                        {"logprob", summary.logprob_sum},
                        {"perplexity", summary.perplexity()},
                        {"positions", std::move(positions)},
                        {"report", ReportJson(response.report())}};
  if (options.compare_with_native) {
    out["native_logprob"] = summary.native_logprob_sum;
    out["kl_mean"] = summary.kl_mean;
    out["tv_mean"] = summary.tv_mean;
  }
  return out;
}

}  // namespace

ExitCode RunScore(const Options& options, const Terminal& terminal) {
  const auto request = MakeScoreRequest(options, terminal.in);
  if (!request.ok()) return Fail(terminal, ExitCode::kRequestFailed, std::string(request.status().message()));
  ExitCode code = ExitCode::kOk;
  const auto connection = Connect(options, options.address, terminal, &code);
  if (connection == nullptr) return code;
  const auto response = connection->Score(*request, options.deadline);
  if (!response.ok()) return RequestFailed(terminal, response.status());
  const Summary summary = Summarise(*response);
  if (options.json) {
    terminal.out << JsonText(ScoreJson(*response, options, summary));
    return ExitCode::kOk;
  }
  WriteText(*response, options, summary, terminal.out);
  if (!options.quiet) terminal.err << DescribeReport(response->report(), options.transfer.mode) << std::flush;
  return ExitCode::kOk;
}

}  // namespace scd
