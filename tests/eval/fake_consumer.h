// A consumer in the test's process that answers as an honest one would, and lies where a test wants it to.
#ifndef SCD_TESTS_EVAL_FAKE_CONSUMER_H_
#define SCD_TESTS_EVAL_FAKE_CONSUMER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/server.h"
#include "scd/v1/consumer.grpc.pb.h"

namespace scd::testing {

// Prompts of text have one token a byte. Every mode but local has 10 bytes of codes for each transferred
// token. A question's answer is "yes"; scores are -1 natively, and -2 with KL 0.25 and total variation 0.5 in
// other modes.
class FakeConsumer final : public v1::Consumer::Service {
 public:
  using ReportLie = std::function<void(const v1::Transfer& asked, v1::TransferReport& report)>;
  using ScoreLie = std::function<void(const v1::ScoreRequest& request, v1::ScoreResponse& response)>;
  // Called while a request is served, before it is answered.
  using Pause = std::function<void(grpc::ServerContext& context)>;

  FakeConsumer();
  ~FakeConsumer() override;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // For requests that begin from now on.
  void LieInReports(ReportLie lie);
  void LieInScores(ScoreLie lie);
  void PauseRequests(Pause pause);

  int num_requests() const;
  std::vector<v1::Transfer> transfers() const;  // of all requests

 private:
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override;
  grpc::Status Score(grpc::ServerContext* context, const v1::ScoreRequest* request,
                     v1::ScoreResponse* response) override;
  grpc::Status Info(grpc::ServerContext* context, const v1::ConsumerInfoRequest* request,
                    v1::ConsumerInfo* response) override;
  v1::TransferReport Serve(grpc::ServerContext& context, const v1::Prompt& prompt,
                           const v1::Transfer& transfer);

  mutable absl::Mutex mutex_;
  ReportLie report_lie_ ABSL_GUARDED_BY(mutex_);
  ScoreLie score_lie_ ABSL_GUARDED_BY(mutex_);
  Pause pause_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Transfer> transfers_ ABSL_GUARDED_BY(mutex_);
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_EVAL_FAKE_CONSUMER_H_
