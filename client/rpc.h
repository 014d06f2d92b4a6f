// Calls to both daemons. Nothing of gRPC shows here: besides this, only the calls of a load (bench/) know it.
#ifndef SCD_CLIENT_RPC_H_
#define SCD_CLIENT_RPC_H_

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "scd/v1/consumer.pb.h"
#include "scd/v1/producer.pb.h"

namespace scd {

// A connection to one daemon. A call that `stop` ends is CANCELLED, on the server too.
class Connection {
 public:
  // UNAVAILABLE, naming the address, where nothing answers there: at once when the connection is refused,
  // else after timeout. CANCELLED where stop came first.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const std::string& address, absl::Duration timeout,
                                                          std::stop_token stop);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Hands every message to on_message as it comes; an error of on_message ends the call and is returned.
  // INTERNAL where the stream ends without its last message.
  absl::Status Generate(const v1::GenerateRequest& request, absl::Duration deadline,
                        const std::function<absl::Status(const v1::GenerateResponse&)>& on_message);
  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request, absl::Duration deadline);
  absl::StatusOr<v1::ConsumerInfo> ConsumerInfo(absl::Duration deadline);
  absl::StatusOr<v1::ProducerInfo> ProducerInfo(absl::Duration deadline);
  // grpc.health.v1.Health/Check: OK where the service serves, UNAVAILABLE where it does not.
  absl::Status CheckHealth(const std::string& service, absl::Duration deadline);

 private:
  struct State;
  explicit Connection(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace scd

#endif  // SCD_CLIENT_RPC_H_
