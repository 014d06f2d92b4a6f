// absl::Status <-> grpc::Status: the one place. The codes are the same numbers; messages are cut to what fits
// into HTTP/2 trailers.
#ifndef SCD_COMMON_SERVER_STATUS_MAPPING_H_
#define SCD_COMMON_SERVER_STATUS_MAPPING_H_

#include <string_view>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace scd {

grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

// "deadline_exceeded": a code as a metric label.
std::string_view StatusCodeLabel(absl::StatusCode code);

}  // namespace scd

#endif  // SCD_COMMON_SERVER_STATUS_MAPPING_H_
