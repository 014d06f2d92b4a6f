// A producer between a consumer and an honest one: passes every call on, and answers with what a script makes
// of the honest answer.
#ifndef SCD_TESTS_SUPPORT_HOSTILE_PRODUCER_H_
#define SCD_TESTS_SUPPORT_HOSTILE_PRODUCER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/server.h"
#include "scd/v1/producer.grpc.pb.h"

namespace scd::testing {

class HostileProducer final : public v1::Producer::Service {
 public:
  using Writer = grpc::ServerWriter<v1::PrefillResponse>;
  // `honest`: header, frames and trailer of the honest answer. What it returns is the call's status.
  using Script = std::function<grpc::Status(std::vector<v1::PrefillResponse> honest, Writer& writer,
                                            grpc::ServerContext& context)>;
  using InfoScript = std::function<void(v1::ProducerInfo& honest)>;

  explicit HostileProducer(const std::string& honest_address);
  ~HostileProducer() override;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // For calls that begin from now on; an empty script passes the honest answer on.
  void SetScript(Script script);
  void SetInfoScript(InfoScript script);

  int num_info_calls() const { return num_info_calls_; }
  int num_prefill_calls() const { return num_prefill_calls_; }

  // Sends everything as it is.
  static grpc::Status SendAll(const std::vector<v1::PrefillResponse>& responses, Writer& writer);
  // Does nothing until the caller is gone.
  static grpc::Status Hang(grpc::ServerContext& context);

 private:
  grpc::Status Prefill(grpc::ServerContext* context, const v1::PrefillRequest* request,
                       Writer* writer) override;
  grpc::Status Info(grpc::ServerContext* context, const v1::ProducerInfoRequest* request,
                    v1::ProducerInfo* response) override;

  const std::unique_ptr<v1::Producer::Stub> honest_;
  std::atomic<int> num_info_calls_{0};
  std::atomic<int> num_prefill_calls_{0};
  absl::Mutex mutex_;
  Script script_ ABSL_GUARDED_BY(mutex_);
  InfoScript info_script_ ABSL_GUARDED_BY(mutex_);
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_SUPPORT_HOSTILE_PRODUCER_H_
