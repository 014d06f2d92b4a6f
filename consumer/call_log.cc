#include "consumer/call_log.h"

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/server/status_mapping.h"

namespace scd {

absl::Status ClientGone(const grpc::CallbackServerContext& context) {
  if (std::chrono::system_clock::now() >= context.deadline()) {
    return absl::DeadlineExceededError("the call's deadline is over");
  }
  return absl::CancelledError("the client went away");
}

void LogServed(Log& log, std::string_view method, std::string_view request_id,
               const v1::TransferReport& report) {
  std::string line =
      absl::StrCat(std::string(method), " ", LogSafe(request_id), ": mode ", report.mode(), ", ",
                   report.transferred_tokens(), " tokens transferred, ", report.computed_tokens(),
                   " computed, ", report.received_bytes(), " bytes",
                   report.shared_store_tokens() > 0 ? " from the shared store" : "", ", first token after ",
                   report.first_token_ms(), " ms, total ", report.total_ms(), " ms");
  if (report.reason().empty()) return log.Debug(line);
  absl::StrAppend(&line, "; not as asked: ", report.reason(), ": ", report.detail());
  if (report.reason() == "short_prompt" || report.reason() == "policy_off") return log.Debug(line);
  log.Warning(line);
}

void LogFailure(Log& log, std::string_view method, std::string_view request_id, const absl::Status& status) {
  const std::string line = absl::StrCat(std::string(method), " ", LogSafe(request_id), ": ",
                                        std::string(StatusCodeLabel(status.code())), ": ", status.message());
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kInvalidArgument:
      return log.Debug(line);
    default:
      return log.Warning(line);
  }
}

}  // namespace scd
