#include "producer/prefill_call.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/server/status_mapping.h"
#include "common/wire/frame_codec.h"
#include "grpcpp/server_context.h"

namespace scd {

std::shared_ptr<PrefillCall> PrefillCall::Create(grpc::CallbackServerContext* context,
                                                 const PrefillCallEnvironment& environment,
                                                 std::string request_id) {
  std::shared_ptr<PrefillCall> call(new PrefillCall(context, environment, std::move(request_id)));
  call->self_ = call;
  return call;
}

PrefillCall::PrefillCall(grpc::CallbackServerContext* context, const PrefillCallEnvironment& environment,
                         std::string request_id)
    : context_(context),
      environment_(environment),
      request_id_(std::move(request_id)),
      started_(absl::Now()) {}

void PrefillCall::Refuse(const absl::Status& status) {
  const absl::MutexLock lock(&mutex_);
  FinishWith(status);
}

void PrefillCall::Start(v1::PrefillHeader header, RequestTracker::Lease lease,
                        const std::stop_token& shutdown) {
  header_ = std::move(header);
  lease_ = std::move(lease);
  const std::weak_ptr<PrefillCall> weak = weak_from_this();
  environment_.stall_watch.Add(weak);
  on_shutdown_.emplace(shutdown, [weak] {
    if (const auto call = weak.lock()) call->Abandon(absl::UnavailableError("the producer is shutting down"));
  });
}

void PrefillCall::StartPrefill(PrefillInput input, v1::PrefillHeader header, RequestTracker::Lease lease,
                               const std::stop_token& shutdown) {
  input_ = std::move(input);
  Start(std::move(header), std::move(lease), shutdown);
  {
    const absl::MutexLock lock(&mutex_);
    *outbox_.emplace_back().mutable_header() = header_;
  }
  // The header leaves after the engine took the job, so that a full queue is a plain refusal.
  if (const absl::Status status = environment_.engine.Submit(shared_from_this()); !status.ok()) {
    Refuse(status);
    return;
  }
  bool abandoned = false;
  {
    const absl::MutexLock lock(&mutex_);
    Advance();
    abandoned = finished_ && !status_.ok();
  }
  // The header alone may have filled the queue: the engine then passed the job over until it left.
  environment_.engine.Wake();
  // A cancellation that came before Submit did not find the job.
  if (abandoned) environment_.engine.Cancel(*this);
}

void PrefillCall::StartStored(StoredCodeReader reader, v1::PrefillHeader header, RequestTracker::Lease lease,
                              const std::stop_token& shutdown) {
  Start(std::move(header), std::move(lease), shutdown);
  const absl::MutexLock lock(&mutex_);
  stored_.emplace(std::move(reader));
  *outbox_.emplace_back().mutable_header() = header_;
  Advance();
}

bool PrefillCall::HasRoom() const {
  const absl::MutexLock lock(&mutex_);
  return static_cast<std::int64_t>(outbox_.size()) < environment_.queue_frames;
}

void PrefillCall::Deliver(LayerCode code) {
  const absl::MutexLock lock(&mutex_);
  Enqueue(std::move(code));
  Advance();
}

void PrefillCall::Complete(const absl::Status& status, const PrefillTimings& timings) {
  const absl::MutexLock lock(&mutex_);
  trailer_.set_queue_ms(timings.queue_ms);
  trailer_.set_prefill_ms(timings.prefill_ms);
  trailer_.set_encode_ms(timings.encode_ms);
  if (!status.ok()) {
    FinishWith(status);
    return;
  }
  EnqueueTrailer();
  Advance();
}

void PrefillCall::CheckStall(absl::Time now) {
  const absl::Duration timeout = environment_.stall_timeout;
  {
    const absl::MutexLock lock(&mutex_);
    if (finished_ || !writing_ || now - write_started_ < timeout) return;
    FinishWith(absl::ResourceExhaustedError(
        absl::StrCat("the reader took nothing for ", absl::FormatDuration(timeout))));
    // The status waits behind a write that its reader does not take: it would hold the stream for ever.
    context_->TryCancel();
  }
  environment_.engine.Cancel(*this);
}

void PrefillCall::OnWriteDone(bool ok) {
  if (!ok) {
    Abandon(absl::CancelledError("the client went away"));
    return;
  }
  bool got_room = false;
  {
    const absl::MutexLock lock(&mutex_);
    writing_ = false;
    got_room = static_cast<std::int64_t>(outbox_.size()) == environment_.queue_frames;
    if (in_flight_.has_frame()) {
      const v1::CodeFrame& frame = in_flight_.frame();
      environment_.metrics.AddBytes(static_cast<CodeKind>(frame.kind()),
                                    static_cast<std::int64_t>(frame.payload().size()));
    }
    Advance();
  }
  if (got_room) environment_.engine.Wake();
}

void PrefillCall::OnCancel() {
  Abandon(absl::CancelledError("the client cancelled, or its deadline passed"));
}

void PrefillCall::OnDone() {
  {
    const absl::MutexLock lock(&mutex_);
    Report();
  }
  self_.reset();
}

void PrefillCall::Advance() {
  if (finished_ || writing_) return;
  if (outbox_.empty() && stored_.has_value() && !complete_) {
    LayerCode code;
    if (stored_->Next(&code)) {
      Enqueue(std::move(code));
    } else {
      EnqueueTrailer();
    }
  }
  if (outbox_.empty()) {
    if (complete_) FinishWith(absl::OkStatus());
    return;
  }
  in_flight_ = std::move(outbox_.front());
  outbox_.pop_front();
  writing_ = true;
  write_started_ = absl::Now();
  StartWrite(&in_flight_);
}

void PrefillCall::Enqueue(LayerCode code) {
  if (finished_) return;
  for (v1::CodeFrame& frame : ToFrames(std::move(code))) {
    trailer_.set_num_frames(trailer_.num_frames() + 1);
    trailer_.set_payload_bytes(trailer_.payload_bytes() + frame.payload().size());
    *outbox_.emplace_back().mutable_frame() = std::move(frame);
  }
}

void PrefillCall::EnqueueTrailer() {
  if (finished_) return;
  complete_ = true;
  *outbox_.emplace_back().mutable_trailer() = trailer_;
}

void PrefillCall::FinishWith(const absl::Status& status) {
  if (finished_) return;
  finished_ = true;
  status_ = status;
  outbox_.clear();
  stored_.reset();
  Finish(ToGrpcStatus(status));
}

void PrefillCall::Abandon(const absl::Status& status) {
  {
    const absl::MutexLock lock(&mutex_);
    FinishWith(status);
  }
  environment_.engine.Cancel(*this);
}

void PrefillCall::Report() {
  const absl::Duration total = absl::Now() - started_;
  const std::int64_t stored_tokens = header_.num_stored_tokens();
  environment_.ended_calls.CountEnded("Prefill", StatusCodeLabel(status_.code()));
  if (status_.ok()) {
    environment_.metrics.ObserveTransfer(absl::ToDoubleSeconds(total));
    environment_.metrics.AddPromptTokens(TransferMetrics::TokenSource::kCached, stored_tokens);
    environment_.metrics.AddPromptTokens(TransferMetrics::TokenSource::kComputed,
                                         static_cast<std::int64_t>(input_.token_ids.size()));
  } else {
    environment_.metrics.CountFailure(StatusCodeLabel(status_.code()));
  }
  const std::string line = absl::StrFormat(
      "prefill id=%s bundle=%s codes=[%d,%d) stored=%d frames=%d bytes=%d queue_ms=%.1f prefill_ms=%.1f "
      "encode_ms=%.1f total_ms=%.1f status=%s",
      LogSafe(request_id_),
      header_.bundle_digest().empty() ? "-" : absl::BytesToHexString(header_.bundle_digest()),
      header_.first_token(), header_.end_token(), stored_tokens, trailer_.num_frames(),
      trailer_.payload_bytes(), trailer_.queue_ms(), trailer_.prefill_ms(), trailer_.encode_ms(),
      absl::ToDoubleMilliseconds(total), std::string(StatusCodeLabel(status_.code())));
  environment_.log.Info(status_.ok() ? line
                                     : absl::StrCat(line, " (", absl::CHexEscape(status_.message()), ")"));
}

}  // namespace scd
