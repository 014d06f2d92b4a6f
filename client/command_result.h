// What commands have in common: how they end with an error, and how they reach a daemon.
#ifndef SCD_CLIENT_COMMAND_RESULT_H_
#define SCD_CLIENT_COMMAND_RESULT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/commands.h"
#include "client/rpc.h"

namespace scd {

// Writes "scd-client: <message>" and returns code.
ExitCode Fail(const Terminal& terminal, ExitCode code, const std::string& message);
// Writes the code and message of a failed request.
ExitCode RequestFailed(const Terminal& terminal, const absl::Status& status);

// An open connection, or null after the error was written (to `code` too).
std::unique_ptr<Connection> Connect(const Options& options, const std::string& address,
                                    const Terminal& terminal, ExitCode* code);

// For what a daemon answers at once. One that hangs is as good as none: without a deadline, one as long as
// the connection's.
absl::Duration ShortDeadline(const Options& options);

}  // namespace scd

#endif  // SCD_CLIENT_COMMAND_RESULT_H_
