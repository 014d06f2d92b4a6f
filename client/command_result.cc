#include "client/command_result.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace scd {

ExitCode Fail(const Terminal& terminal, ExitCode code, const std::string& message) {
  terminal.err << "scd-client: " << message << std::endl;
  return code;
}

ExitCode RequestFailed(const Terminal& terminal, const absl::Status& status) {
  return Fail(terminal, ExitCode::kRequestFailed,
              absl::StrCat(absl::StatusCodeToString(status.code()), ": ", status.message()));
}

std::unique_ptr<Connection> Connect(const Options& options, const std::string& address,
                                    const Terminal& terminal, ExitCode* code) {
  auto connection = Connection::Open(address, options.connect_timeout, terminal.stop);
  if (connection.ok()) return *std::move(connection);
  const bool unreachable = connection.status().code() == absl::StatusCode::kUnavailable;
  *code = Fail(terminal, unreachable ? ExitCode::kUnreachable : ExitCode::kRequestFailed,
               std::string(connection.status().message()));
  return nullptr;
}

absl::Duration ShortDeadline(const Options& options) {
  return options.deadline == absl::InfiniteDuration() ? options.connect_timeout : options.deadline;
}

}  // namespace scd
