#include "client/bench/stream_call.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/server/status_mapping.h"

namespace scd {

StreamCall::StreamCall(v1::GenerateRequest request, double intended_s, absl::Duration deadline, Clock clock,
                       OnEnd on_end)
    : request_(std::move(request)),
      deadline_(deadline),
      clock_(std::move(clock)),
      on_end_(std::move(on_end)) {
  record_.intended_s = intended_s;
}

void StreamCall::Start(v1::Consumer::Stub& stub) {
  if (deadline_ < absl::InfiniteDuration()) {
    context_.set_deadline(absl::ToChronoTime(absl::Now() + deadline_));
  }
  record_.sent_s = clock_();
  stub.async()->Generate(&context_, &request_, this);
  StartRead(&response_);
  StartCall();  // from here on the call may have ended and be gone
}

void StreamCall::OnReadDone(bool ok) {
  if (!ok) return;
  if (response_.has_token()) {
    record_.token_times_s.push_back(clock_());
  } else if (response_.has_done()) {
    has_done_ = true;
    record_.report = response_.done().report();
  }
  StartRead(&response_);
}

void StreamCall::OnDone(const grpc::Status& status) {
  record_.end_s = clock_();
  record_.status = FromGrpcStatus(status);
  if (record_.status.ok() && !has_done_) {
    record_.status = absl::InternalError("the answer ended without its last message");
  }
  // Both outlive this.
  const OnEnd on_end = on_end_;
  const RequestRecord record = std::move(record_);
  on_end(this, record);
}

}  // namespace scd
