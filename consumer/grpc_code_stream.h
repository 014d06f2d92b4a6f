// One call of Producer.Prefill: handshake where it is due, then the stream, read only as fast as places are
// free.
#ifndef SCD_CONSUMER_GRPC_CODE_STREAM_H_
#define SCD_CONSUMER_GRPC_CODE_STREAM_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/wire/transfer_checker.h"
#include "consumer/code_client.h"
#include "consumer/producer_peer.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "scd/v1/producer.grpc.pb.h"

namespace scd {

class GrpcCodeStream final : public CodeStream,
                             public grpc::ClientReadReactor<v1::PrefillResponse>,
                             public std::enable_shared_from_this<GrpcCodeStream> {
 public:
  GrpcCodeStream(std::shared_ptr<ProducerPeer> peer, CodeRequest request, std::shared_ptr<CodeSink> sink);

  void Start() override;
  void Release() override;
  void Cancel() override;

 private:
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  void StartHandshake();
  void OnHandshakeDone(const grpc::Status& status);
  void StartPrefill();
  // Takes what was read; an outcome that is not ok ends the stream.
  TransferOutcome Take(v1::PrefillResponse& response);
  TransferOutcome TakeHeader(const v1::PrefillHeader& header);
  TransferOutcome TakeFrame(v1::CodeFrame&& frame);
  TransferOutcome TakeTrailer(const v1::PrefillTrailer& trailer);
  void End(const TransferOutcome& outcome);
  bool cancelled() {
    absl::MutexLock lock(&mutex_);
    return cancelled_;
  }
  RequestTrace* trace() const { return request_.trace.get(); }
  double ElapsedMs() const { return absl::ToDoubleMilliseconds(absl::Now() - start_); }

  // What holds the producer's channel. A thread of gRPC that let go of a process' last channel would have to
  // join itself: so End gives this up before the sink hears of the end, while the client still holds the
  // channel.
  struct Connection {
    std::shared_ptr<ProducerPeer> peer;
    std::shared_ptr<v1::Producer::Stub> stub;  // from Start on
    grpc::ClientContext handshake;
    grpc::ClientContext prefill;
  };

  // Taken away under mutex_, by End. Calls of gRPC come before that and read it as it is, others under
  // mutex_.
  std::shared_ptr<Connection> connection_ = std::make_shared<Connection>();
  const CodeRequest request_;
  std::optional<TraceSpan> waiting_;  // for the handshake, then for the first frame
  std::shared_ptr<CodeSink> sink_;
  const absl::Time start_ = absl::Now();
  std::shared_ptr<GrpcCodeStream> self_;

  v1::ProducerInfoRequest info_request_;
  v1::ProducerInfo info_;
  v1::PrefillRequest prefill_request_;
  v1::PrefillResponse response_;

  // Touched by one call of gRPC at a time.
  std::optional<CodeHeader> header_;
  std::optional<TransferChecker> checker_;
  bool trailer_seen_ = false;
  std::uint64_t num_frames_ = 0;
  TransferStats stats_;

  absl::Mutex mutex_;
  std::int64_t free_places_ ABSL_GUARDED_BY(mutex_);
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;  // no read is under way because no place was free
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  TransferOutcome failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace scd

#endif  // SCD_CONSUMER_GRPC_CODE_STREAM_H_
