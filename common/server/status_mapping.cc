#include "common/server/status_mapping.h"

#include <array>
#include <cstddef>
#include <string>

namespace scd {
namespace {

// Trailers hold 8 KiB by default, and a byte may take three there (percent encoding).
constexpr std::size_t kMaxMessageBytes = 2000;

constexpr std::array<std::string_view, 17> kLabels = {
    "ok",        "cancelled",      "unknown",           "invalid_argument",   "deadline_exceeded",
    "not_found", "already_exists", "permission_denied", "resource_exhausted", "failed_precondition",
    "aborted",   "out_of_range",   "unimplemented",     "internal",           "unavailable",
    "data_loss", "unauthenticated"};

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const absl::string_view message = status.message();
  std::string text(message.substr(0, kMaxMessageBytes));
  if (message.size() > kMaxMessageBytes) text += "...";
  return {static_cast<grpc::StatusCode>(status.code()), text};
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

std::string_view StatusCodeLabel(absl::StatusCode code) {
  const auto index = static_cast<std::size_t>(code);
  return index < kLabels.size() ? kLabels[index]
                                : kLabels[static_cast<std::size_t>(absl::StatusCode::kUnknown)];
}

}  // namespace scd
