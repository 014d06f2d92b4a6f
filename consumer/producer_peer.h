// One producer as seen by its client: the channel, what is expected of it, and whether the present connection
// has proved it.
#ifndef SCD_CONSUMER_PRODUCER_PEER_H_
#define SCD_CONSUMER_PRODUCER_PEER_H_

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "consumer/code_client.h"
#include "consumer/handshake.h"
#include "consumer/transfer_reason.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/status.h"
#include "scd/v1/producer.grpc.pb.h"

namespace scd {

class ProducerPeer {
 public:
  ProducerPeer(std::function<std::shared_ptr<grpc::Channel>()> make_channel, const CodeClientOptions& options,
               const PeerIdentity& expected);

  // For calls; they may outlast the present connection.
  std::shared_ptr<v1::Producer::Stub> stub();
  // After a failed try to connect gRPC lets calls fail until the time for the next one has come. From here on
  // they wait for a try that begins now, together where there are many.
  void ConnectAnew();
  const PeerIdentity& expected() const { return expected_; }
  const CodeClientOptions& options() const { return options_; }

  // Whether the connection that the next call takes has passed the handshake. A connection that was lost has
  // to pass it again.
  bool proved();
  // What a call through `stub` has shown; nothing where that is not the present one any more.
  void SetProved(const v1::Producer::Stub* stub, bool proved);

  // Why a call to this producer failed. `stream_began`: its header had arrived.
  TransferOutcome Explain(const grpc::Status& status, bool stream_began) const;
  // Why the handshake's call failed; `deadline` is the transfer's.
  TransferOutcome ExplainHandshake(const grpc::Status& status, absl::Time deadline) const;

 private:
  const std::function<std::shared_ptr<grpc::Channel>()> make_channel_;
  const CodeClientOptions options_;
  const PeerIdentity expected_;
  absl::Mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<v1::Producer::Stub> stub_ ABSL_GUARDED_BY(mutex_);
  bool proved_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace scd

#endif  // SCD_CONSUMER_PRODUCER_PEER_H_
