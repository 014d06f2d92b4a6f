// A plain client of scd.v1.Consumer for tests.
#ifndef SCD_TESTS_SUPPORT_CONSUMER_CLIENT_H_
#define SCD_TESTS_SUPPORT_CONSUMER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/client_context.h"
#include "scd/v1/consumer.grpc.pb.h"

namespace scd::testing {

struct Answer {
  grpc::Status status;
  std::vector<std::int32_t> ids;
  std::string text;
  std::vector<v1::TokenEvent> tokens;
  v1::GenerateDone done;
  double seconds = 0;

  const v1::TransferReport& report() const { return done.report(); }
};

class ConsumerClient {
 public:
  explicit ConsumerClient(int port);

  v1::Consumer::Stub& stub() { return *stub_; }

  static v1::GenerateRequest Request(const std::vector<std::int32_t>& prompt, const std::string& mode,
                                     v1::Policy policy, std::uint32_t max_tokens = 8);
  // `context` may be given to cancel the call from another thread.
  Answer Generate(const v1::GenerateRequest& request, double deadline_seconds = 20,
                  grpc::ClientContext* context = nullptr);
  grpc::Status Score(const v1::ScoreRequest& request, v1::ScoreResponse* response,
                     double deadline_seconds = 20);
  v1::ConsumerInfo Info();

  // Whether within `seconds` no request is in flight and no page is used.
  bool BecomesIdle(double seconds);

 private:
  std::unique_ptr<v1::Consumer::Stub> stub_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_SUPPORT_CONSUMER_CLIENT_H_
