#include "eval/running_pair.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/time/time.h"
#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::unique_ptr<RunningPair>> RunningPair::Open(const EvalConfig& config,
                                                               const std::stop_token& stop) {
  auto pair = absl::WrapUnique(new RunningPair());
  std::string address = config.consumer;
  if (address.empty()) {
    SCD_ASSIGN_OR_RETURN(pair->daemons_, ChildDaemons::Start(config.daemons, stop));
    address = pair->daemons_->consumer_address();
  }
  const PairSessionOptions options{
      .connect_timeout = absl::Milliseconds(config.requests.connect_timeout_ms),
      .request_timeout = absl::Milliseconds(config.requests.request_timeout_ms),
      .transfer_timeout = absl::Milliseconds(config.requests.transfer_timeout_ms)};
  auto session = PairSession::Open(address, options, stop);
  SCD_RETURN_IF_ERROR(pair->Explain(session.status()));
  pair->session_ = *std::move(session);
  return pair;
}

absl::Status RunningPair::Explain(const absl::Status& error) const {
  return daemons_ == nullptr ? error : daemons_->Explain(error);
}

}  // namespace scd
