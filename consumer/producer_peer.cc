#include "consumer/producer_peer.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/server/status_mapping.h"

namespace scd {

ProducerPeer::ProducerPeer(std::function<std::shared_ptr<grpc::Channel>()> make_channel,
                           const CodeClientOptions& options, const PeerIdentity& expected)
    : make_channel_(std::move(make_channel)),
      options_(options),
      expected_(expected),
      channel_(make_channel_()),
      stub_(v1::Producer::NewStub(channel_)) {}

std::shared_ptr<v1::Producer::Stub> ProducerPeer::stub() {
  absl::MutexLock lock(&mutex_);
  return stub_;
}

void ProducerPeer::ConnectAnew() {
  absl::MutexLock lock(&mutex_);
  if (channel_->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_TRANSIENT_FAILURE) return;
  channel_ = make_channel_();
  stub_ = v1::Producer::NewStub(channel_);
  // Whoever comes after this one finds it connecting, and waits for the same try.
  channel_->GetState(/*try_to_connect=*/true);
  proved_ = false;
}

bool ProducerPeer::proved() {
  absl::MutexLock lock(&mutex_);
  // A lost connection leaves the channel idle until the next call, so a state other than READY is always seen
  // here.
  const bool connected = channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  if (!connected) proved_ = false;
  return proved_;
}

void ProducerPeer::SetProved(const v1::Producer::Stub* stub, bool proved) {
  absl::MutexLock lock(&mutex_);
  if (stub == stub_.get()) proved_ = proved;
}

TransferOutcome ProducerPeer::Explain(const grpc::Status& status, bool stream_began) const {
  const std::string text = absl::StrCat("producer ", options_.address, ": ", status.error_message());
  const absl::StatusCode code = FromGrpcStatus(status).code();
  TransferReason reason = TransferReason::kProducerError;
  switch (code) {
    case absl::StatusCode::kDeadlineExceeded:
      reason = TransferReason::kDeadline;
      break;
    case absl::StatusCode::kUnavailable:
      reason = TransferReason::kProducerUnavailable;
      break;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      reason = TransferReason::kRefused;
      break;
    case absl::StatusCode::kResourceExhausted:
      // Once the stream runs, only a message over the limit ends it so.
      reason = stream_began ? TransferReason::kCorruptFrame : TransferReason::kRefused;
      break;
    default:
      break;
  }
  return {reason, absl::Status(code, text)};
}

TransferOutcome ProducerPeer::ExplainHandshake(const grpc::Status& status, absl::Time deadline) const {
  const absl::StatusCode code = FromGrpcStatus(status).code();
  if (code == absl::StatusCode::kUnavailable) return Explain(status, false);
  if (code == absl::StatusCode::kDeadlineExceeded) {
    const bool whole_budget = absl::Now() >= deadline;
    return {whole_budget ? TransferReason::kDeadline : TransferReason::kProducerUnavailable,
            absl::Status(code,
                         absl::StrCat("producer ", options_.address, " did not answer the handshake within ",
                                      whole_budget ? std::string("the transfer's time budget")
                                                   : absl::FormatDuration(options_.connect_timeout)))};
  }
  return {TransferReason::kHandshake,
          absl::Status(code, absl::StrCat("producer ", options_.address, ": ", status.error_message()))};
}

}  // namespace scd
