#include "producer/prefill_call.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/server/status_mapping.h"
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
      started_(absl::Now()),
      trace_(BeginTrace(environment.traces, request_id_)) {}

void PrefillCall::Refuse(const absl::Status& status) {
  const absl::MutexLock lock(&mutex_);
  FinishWith(status);
}

void PrefillCall::Accept(v1::PrefillHeader header, RequestTracker::Lease lease,
                         const std::stop_token& shutdown) {
  {
    const absl::MutexLock lock(&mutex_);
    header_ = std::move(header);
  }
  lease_ = std::move(lease);
  const std::weak_ptr<PrefillCall> weak = weak_from_this();
  environment_.stall_watch.Add(weak);
  on_shutdown_.emplace(shutdown, [weak] {
    if (const auto call = weak.lock()) call->Abandon(absl::UnavailableError("the producer is shutting down"));
  });
}

void PrefillCall::StartPrefill(PrefillInput input, StoredCodes known) {
  {
    const absl::MutexLock lock(&mutex_);
    if (finished_) return;
  }
  input_ = std::move(input);
  input_.trace = trace_;
  const absl::Status status = environment_.engine.Submit(shared_from_this(), std::move(known));
  if (!status.ok()) {
    Refuse(status);
    return;
  }
  bool abandoned = false;
  {
    const absl::MutexLock lock(&mutex_);
    abandoned = finished_ && !status_.ok();
  }
  // A cancellation that came before Submit did not find the job.
  if (abandoned) environment_.engine.Cancel(*this);
}

void PrefillCall::StartStored(const LayerPlan& plan, StoredCodes codes) {
  const absl::MutexLock lock(&mutex_);
  if (finished_) return;
  const auto num_stored_tokens = static_cast<std::uint32_t>(codes.num_tokens());
  header_.set_end_token(static_cast<std::uint32_t>(codes.first_token) + num_stored_tokens);
  header_.set_num_stored_tokens(num_stored_tokens);
  trailer_.set_num_stored_tokens(num_stored_tokens);
  trailer_.set_num_cached_tokens(header_.end_token());
  outbox_.Add(header_);
  outbox_.Add(plan, std::move(codes));
  complete_ = true;
  Advance();
}

// The header leaves after the engine took the job, so that a full queue is a plain refusal.
void PrefillCall::Begin(std::int64_t num_stored_tokens) {
  const absl::MutexLock lock(&mutex_);
  if (finished_) return;
  header_.set_num_stored_tokens(static_cast<std::uint32_t>(num_stored_tokens));
  outbox_.Add(header_);
  Advance();
}

bool PrefillCall::HasRoom() const {
  const absl::MutexLock lock(&mutex_);
  return QueueHasRoom();
}

bool PrefillCall::QueueHasRoom() const {
  return outbox_.size() < environment_.queue_frames;
}

void PrefillCall::Deliver(LayerCode code) {
  const absl::MutexLock lock(&mutex_);
  if (finished_) return;
  outbox_.Add(std::move(code));
  Advance();
}

void PrefillCall::DeliverStored(StoredCodes codes) {
  const absl::MutexLock lock(&mutex_);
  if (finished_) return;
  outbox_.Add(input_.plan, std::move(codes));
  Advance();
}

void PrefillCall::Complete(const absl::Status& status, const PrefillReport& report) {
  const absl::MutexLock lock(&mutex_);
  trailer_.set_queue_ms(report.queue_ms);
  trailer_.set_prefill_ms(report.prefill_ms);
  trailer_.set_encode_ms(report.encode_ms);
  trailer_.set_num_prefilled_tokens(static_cast<std::uint32_t>(report.num_prefilled_tokens));
  trailer_.set_num_cached_tokens(static_cast<std::uint32_t>(report.num_cached_tokens));
  trailer_.set_num_stored_tokens(static_cast<std::uint32_t>(report.num_stored_tokens));
  if (!status.ok()) {
    FinishWith(status);
    return;
  }
  complete_ = true;
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
    write_span_.reset();
    const bool had_room = QueueHasRoom();
    if (in_flight_.has_frame()) {
      const v1::CodeFrame& frame = in_flight_.frame();
      environment_.metrics.AddBytes(static_cast<CodeKind>(frame.kind()),
                                    static_cast<std::int64_t>(frame.payload().size()));
    }
    Advance();
    got_room = !had_room && QueueHasRoom();
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
  CountWaiting();
  if (finished_ || writing_) return;
  if (!outbox_.Next(&in_flight_)) {
    if (!complete_) return;
    if (trailer_written_) {
      FinishWith(absl::OkStatus());
      return;
    }
    trailer_written_ = true;
    trailer_.set_num_frames(static_cast<std::uint64_t>(outbox_.num_frames()));
    trailer_.set_payload_bytes(static_cast<std::uint64_t>(outbox_.payload_bytes()));
    *in_flight_.mutable_trailer() = trailer_;
  }
  writing_ = true;
  write_started_ = absl::Now();
  TraceWrite();
  StartWrite(&in_flight_);
}

void PrefillCall::TraceWrite() {
  if (trace_ == nullptr) return;
  if (!in_flight_.has_frame()) {
    write_span_.emplace(trace_.get(), TraceTrack::kSend,
                        in_flight_.has_header() ? "send header" : "send trailer");
    return;
  }
  const v1::CodeFrame& frame = in_flight_.frame();
  write_span_.emplace(trace_.get(), TraceTrack::kSend, "send",
                      TraceDetail{.layer = frame.layer(),
                                  .first_token = frame.first_token(),
                                  .tokens = frame.num_tokens(),
                                  .bytes = static_cast<std::int64_t>(frame.payload().size()),
                                  .kind = CodeKindName(static_cast<CodeKind>(frame.kind()))});
}

void PrefillCall::CountWaiting() {
  if (trace_ != nullptr) trace_->AddCount(TraceTrack::kSend, "messages waiting", outbox_.size());
}

void PrefillCall::FinishWith(const absl::Status& status) {
  if (finished_) return;
  finished_ = true;
  status_ = status;
  outbox_.Clear();
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
  environment_.ended_calls.CountEnded("Prefill", StatusCodeLabel(status_.code()));
  if (trace_ != nullptr) trace_->End(StatusCodeLabel(status_.code()));
  if (status_.ok()) {
    environment_.metrics.ObserveTransfer(absl::ToDoubleSeconds(total));
    environment_.metrics.AddPromptTokens(TransferMetrics::TokenSource::kCached,
                                         static_cast<std::int64_t>(trailer_.num_stored_tokens()));
    environment_.metrics.AddPromptTokens(TransferMetrics::TokenSource::kComputed,
                                         static_cast<std::int64_t>(trailer_.num_prefilled_tokens()));
  } else {
    environment_.metrics.CountFailure(StatusCodeLabel(status_.code()));
  }
  const std::string line = absl::StrFormat(
      "prefill id=%s bundle=%s codes=[%d,%d) prefilled=%d cached=%d stored=%d frames=%d bytes=%d "
      "queue_ms=%.1f "
      "prefill_ms=%.1f encode_ms=%.1f total_ms=%.1f status=%s",
      LogSafe(request_id_),
      header_.bundle_digest().empty() ? "-" : absl::BytesToHexString(header_.bundle_digest()),
      header_.first_token(), header_.end_token(), trailer_.num_prefilled_tokens(),
      trailer_.num_cached_tokens(), trailer_.num_stored_tokens(), outbox_.num_frames(),
      outbox_.payload_bytes(), trailer_.queue_ms(), trailer_.prefill_ms(), trailer_.encode_ms(),
      absl::ToDoubleMilliseconds(total), std::string(StatusCodeLabel(status_.code())));
  environment_.log.Info(status_.ok() ? line
                                     : absl::StrCat(line, " (", absl::CHexEscape(status_.message()), ")"));
}

}  // namespace scd
