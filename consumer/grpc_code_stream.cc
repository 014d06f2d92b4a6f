#include "consumer/grpc_code_stream.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/trace/code_detail.h"
#include "common/wire/frame_codec.h"
#include "consumer/code_check.h"

namespace scd {
namespace {

TransferOutcome Cancelled() {
  return {TransferReason::kCancelled, absl::CancelledError("the transfer was cancelled")};
}

}  // namespace

GrpcCodeStream::GrpcCodeStream(std::shared_ptr<ProducerPeer> peer, CodeRequest request,
                               std::shared_ptr<CodeSink> sink)
    : request_(std::move(request)),
      sink_(std::move(sink)),
      free_places_(std::max<std::int64_t>(peer->options().queue_frames, 1)) {
  connection_->peer = std::move(peer);
}

void GrpcCodeStream::Start() {
  self_ = shared_from_this();
  if (request_.connect_anew) connection_->peer->ConnectAnew();
  connection_->stub = connection_->peer->stub();
  // Once for each connection: asked every time it would cost each prompt a round trip.
  if (connection_->peer->proved()) {
    StartPrefill();
  } else {
    StartHandshake();
  }
}

void GrpcCodeStream::StartHandshake() {
  waiting_.emplace(trace(), TraceTrack::kTransfer, "handshake");
  connection_->handshake.set_deadline(absl::ToChronoTime(
      std::min(request_.deadline, absl::Now() + connection_->peer->options().connect_timeout)));
  connection_->stub->async()->Info(&connection_->handshake, &info_request_, &info_,
                                   [this](const grpc::Status& status) { OnHandshakeDone(status); });
}

void GrpcCodeStream::OnHandshakeDone(const grpc::Status& status) {
  if (cancelled()) return End(Cancelled());
  if (!status.ok()) return End(connection_->peer->ExplainHandshake(status, request_.deadline));
  if (const absl::Status identity = CheckProducerInfo(connection_->peer->expected(), info_); !identity.ok()) {
    return End({TransferReason::kHandshake, identity});
  }
  connection_->peer->SetProved(connection_->stub.get(), true);
  StartPrefill();
}

void GrpcCodeStream::StartPrefill() {
  waiting_.emplace(trace(), TraceTrack::kTransfer, "wait for the first frame");
  const TokenRange& range = request_.range;
  prefill_request_.set_request_id(request_.request_id);
  prefill_request_.set_bundle_digest(std::string(connection_->peer->expected().bundle.bytes()));
  *prefill_request_.mutable_plan() = PlanToProto(request_.plan);
  prefill_request_.mutable_token_ids()->Add(request_.prompt->begin(), request_.prompt->begin() + range.end);
  prefill_request_.set_first_token(static_cast<std::uint32_t>(range.begin));
  prefill_request_.set_end_token(static_cast<std::uint32_t>(range.end));
  prefill_request_.set_max_uncoded_tokens(static_cast<std::uint32_t>(request_.max_uncoded_tokens));
  prefill_request_.set_no_store(request_.no_code_store);
  connection_->prefill.set_deadline(absl::ToChronoTime(request_.deadline));
  connection_->stub->async()->Prefill(&connection_->prefill, &prefill_request_, this);
  // Reads are also started from Release: the hold keeps OnDone away until the last of them.
  AddHold();
  StartRead(&response_);
  StartCall();
}

void GrpcCodeStream::OnReadDone(bool ok) {
  if (!ok) return RemoveHold();
  TransferOutcome outcome = cancelled() ? Cancelled() : Take(response_);
  if (!outcome.ok()) {
    {
      absl::MutexLock lock(&mutex_);
      failure_ = std::move(outcome);
    }
    connection_->prefill.TryCancel();
    return RemoveHold();
  }
  {
    absl::MutexLock lock(&mutex_);
    paused_ = free_places_ <= 0 && !cancelled_;
    if (paused_) return;
  }
  StartRead(&response_);
}

TransferOutcome GrpcCodeStream::Take(v1::PrefillResponse& response) {
  stats_.received_bytes += response.ByteSizeLong();
  if (trailer_seen_) {
    return {TransferReason::kCorruptFrame, absl::DataLossError("a message after the trailer")};
  }
  if (!header_ && !response.has_header()) {
    return {TransferReason::kBadHeader, absl::DataLossError("the stream does not begin with a header")};
  }
  switch (response.event_case()) {
    case v1::PrefillResponse::kHeader:
      return TakeHeader(response.header());
    case v1::PrefillResponse::kFrame:
      return TakeFrame(std::move(*response.mutable_frame()));
    case v1::PrefillResponse::kTrailer:
      return TakeTrailer(response.trailer());
    case v1::PrefillResponse::EVENT_NOT_SET:
      break;
  }
  return {TransferReason::kCorruptFrame, absl::DataLossError("a message of an unknown kind")};
}

TransferOutcome GrpcCodeStream::TakeHeader(const v1::PrefillHeader& header) {
  if (header_) return {TransferReason::kBadHeader, absl::DataLossError("a second header")};
  const ExpectedHeader expected{.model = connection_->peer->expected().model,
                                .bundle = connection_->peer->expected().bundle,
                                .plan = request_.plan,
                                .first_token = request_.range.begin,
                                .end_token = request_.range.end,
                                .max_uncoded_tokens = request_.max_uncoded_tokens};
  absl::StatusOr<CodeHeader> checked = CheckHeader(expected, header);
  if (!checked.ok()) return {TransferReason::kBadHeader, checked.status()};
  header_ = *checked;
  stats_.stored_tokens = header_->stored_tokens;
  checker_.emplace(request_.plan, request_.range.begin, header_->end_token);
  return {};
}

TransferOutcome GrpcCodeStream::TakeFrame(v1::CodeFrame&& frame) {
  waiting_.reset();
  const RequestTrace::Time begin = RequestTrace::TimeFor(trace());
  absl::StatusOr<LayerCode> code = FromFrame(std::move(frame));
  if (!code.ok()) return {TransferReason::kCorruptFrame, code.status()};
  if (absl::Status status = checker_->Accept(*code); !status.ok())
    return {TransferReason::kCorruptFrame, status};
  if (absl::Status status = CheckCodeNumbers(*code); !status.ok())
    return {TransferReason::kCorruptFrame, status};
  if (trace() != nullptr) {
    trace()->AddSpan(TraceTrack::kReceive, "receive", begin, RequestTrace::Clock::now(), DetailOf(*code));
  }
  ++num_frames_;
  stats_.code_bytes_by_kind[code->kind] += code->payload.size();
  stats_.transfer_ms = ElapsedMs();
  if (num_frames_ == 1) stats_.first_frame_ms = stats_.transfer_ms;
  {
    absl::MutexLock lock(&mutex_);
    --free_places_;
  }
  sink_->OnCode(*std::move(code));
  return {};
}

TransferOutcome GrpcCodeStream::TakeTrailer(const v1::PrefillTrailer& trailer) {
  if (absl::Status status = checker_->CheckComplete(); !status.ok())
    return {TransferReason::kIncomplete, status};
  if (trailer.num_frames() != num_frames_ || trailer.payload_bytes() != stats_.code_bytes()) {
    return {TransferReason::kCorruptFrame,
            absl::DataLossError(absl::StrCat("the trailer counts ", trailer.num_frames(), " frames and ",
                                             trailer.payload_bytes(), " bytes, ", num_frames_, " and ",
                                             stats_.code_bytes(), " arrived"))};
  }
  for (const double ms : {trailer.queue_ms(), trailer.prefill_ms(), trailer.encode_ms()}) {
    if (std::isfinite(ms) && ms >= 0) continue;
    return {TransferReason::kCorruptFrame, absl::DataLossError("the trailer's times cannot be")};
  }
  // More may have been taken from the store than was known at the header.
  const std::int64_t stored = trailer.num_stored_tokens();
  if (stored < header_->stored_tokens || stored > header_->end_token - request_.range.begin ||
      trailer.num_prefilled_tokens() > request_.range.end) {
    return {TransferReason::kCorruptFrame, absl::DataLossError("the trailer's tokens cannot be")};
  }
  trailer_seen_ = true;
  stats_.stored_tokens = stored;
  stats_.producer_prefilled_tokens = trailer.num_prefilled_tokens();
  stats_.producer_queue_ms = trailer.queue_ms();
  stats_.producer_prefill_ms = trailer.prefill_ms();
  stats_.producer_encode_ms = trailer.encode_ms();
  return {};
}

void GrpcCodeStream::Release() {
  {
    absl::MutexLock lock(&mutex_);
    ++free_places_;
    if (!std::exchange(paused_, false)) return;
  }
  StartRead(&response_);
}

void GrpcCodeStream::Cancel() {
  bool was_paused = false;
  std::shared_ptr<Connection> connection;
  {
    absl::MutexLock lock(&mutex_);
    connection = connection_;
    cancelled_ = true;
    was_paused = std::exchange(paused_, false);
  }
  if (connection != nullptr) {
    connection->handshake.TryCancel();
    connection->prefill.TryCancel();
  }
  if (was_paused) StartRead(&response_);
}

void GrpcCodeStream::OnDone(const grpc::Status& status) {
  TransferOutcome outcome;
  {
    absl::MutexLock lock(&mutex_);
    outcome = cancelled_ ? Cancelled() : failure_;
  }
  if (outcome.ok() && !status.ok()) outcome = connection_->peer->Explain(status, header_.has_value());
  if (outcome.ok() && !trailer_seen_) {
    outcome = {TransferReason::kIncomplete, absl::DataLossError("the stream ended without a trailer")};
  }
  if (!outcome.ok() && outcome.reason != TransferReason::kCancelled) {
    connection_->peer->SetProved(connection_->stub.get(), false);
  }
  End(outcome);
}

void GrpcCodeStream::End(const TransferOutcome& outcome) {
  waiting_.reset();
  CodeStreamEnd end;
  end.outcome = outcome;
  end.stats = stats_;
  if (outcome.ok()) end.range = {request_.range.begin, header_->end_token};
  {
    std::shared_ptr<Connection> connection;
    absl::MutexLock lock(&mutex_);
    connection.swap(connection_);
  }
  // The sink may hold this stream: neither keeps the other alive from here on.
  const std::shared_ptr<CodeSink> sink = std::move(sink_);
  sink->OnEnd(end);
  self_.reset();
}

}  // namespace scd
