#include <utility>

#include "client/command_result.h"
#include "client/commands.h"
#include "client/report.h"
#include "client/requests.h"

namespace scd {

ExitCode RunGenerate(const Options& options, const Terminal& terminal) {
  const auto request = MakeGenerateRequest(options, terminal.in);
  if (!request.ok()) return Fail(terminal, ExitCode::kRequestFailed, std::string(request.status().message()));
  ExitCode code = ExitCode::kOk;
  const auto connection = Connect(options, options.address, terminal, &code);
  if (connection == nullptr) return code;

  v1::GenerateDone done;
  std::string text;
  nlohmann::json tokens = nlohmann::json::array();
  const absl::Status status =
      connection->Generate(*request, options.deadline, [&](const v1::GenerateResponse& response) {
        const std::string& piece = response.has_done() ? response.done().text() : response.token().text();
        if (response.has_done()) done = response.done();
        if (options.json) {
          text += piece;
          if (response.has_token()) tokens.push_back(TokenJson(response.token()));
        } else if (!piece.empty()) {
          terminal.out << piece << std::flush;
        }
        return terminal.out ? absl::OkStatus() : absl::AbortedError("the answer cannot be written");
      });
  if (!status.ok()) {
    if (!options.json) terminal.out << std::endl;
    return RequestFailed(terminal, status);
  }
  if (options.json) {
    terminal.out << JsonText({{"text", text},
                              {"tokens", std::move(tokens)},
                              {"finish_reason", FinishReasonName(done.finish_reason())},
                              {"num_tokens", done.num_tokens()},
                              {"time_per_output_token_ms", done.time_per_output_token_ms()},
                              {"report", ReportJson(done.report())}});
  } else {
    terminal.out << std::endl;
  }
  if (!options.quiet && !options.json) {
    terminal.err << "\n"
                 << DescribeReport(done.report(), options.transfer.mode) << DescribeDone(done) << std::flush;
  }
  return ExitCode::kOk;
}

}  // namespace scd
