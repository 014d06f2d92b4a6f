// Log lines and statuses that all calls of the consumer share.
#ifndef SCD_CONSUMER_CALL_LOG_H_
#define SCD_CONSUMER_CALL_LOG_H_

#include <string_view>

#include "absl/status/status.h"
#include "common/server/log.h"
#include "grpcpp/server_context.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

// A call whose client went away or whose time is over.
absl::Status ClientGone(const grpc::CallbackServerContext& context);

// Debug for a call that was served as asked, a warning for one whose transfer failed.
void LogServed(Log& log, std::string_view method, std::string_view request_id,
               const v1::TransferReport& report);
// Debug for what is the client's doing, else a warning.
void LogFailure(Log& log, std::string_view method, std::string_view request_id, const absl::Status& status);

}  // namespace scd

#endif  // SCD_CONSUMER_CALL_LOG_H_
