// One Generate call of gRPC's callback interface: gRPC's own few threads run all of a load's calls, none has
// a thread to itself.
#ifndef SCD_CLIENT_BENCH_STREAM_CALL_H_
#define SCD_CLIENT_BENCH_STREAM_CALL_H_

#include <functional>

#include "absl/time/time.h"
#include "client/bench/request_record.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "scd/v1/consumer.grpc.pb.h"

namespace scd {

class StreamCall final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  // Seconds since the begin of the level.
  using Clock = std::function<double()>;
  // Called once, last of all, on a thread of gRPC; may drop the last reference to the call.
  using OnEnd = std::function<void(StreamCall*, const RequestRecord&)>;

  StreamCall(v1::GenerateRequest request, double intended_s, absl::Duration deadline, Clock clock,
             OnEnd on_end);

  // Once. `stub` outlives the call.
  void Start(v1::Consumer::Stub& stub);
  // At any time between construction and on_end.
  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const v1::GenerateRequest request_;
  const absl::Duration deadline_;
  const Clock clock_;
  const OnEnd on_end_;
  grpc::ClientContext context_;
  v1::GenerateResponse response_;
  RequestRecord record_;
  bool has_done_ = false;
};

}  // namespace scd

#endif  // SCD_CLIENT_BENCH_STREAM_CALL_H_
