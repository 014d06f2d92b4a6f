// An honest producer, a hostile one before it, and a consumer, all on loopback in one process and with
// the attentive tiny model as both: through the identity bundle the consumer's answers equal its own.
#ifndef SCD_TESTS_CONSUMER_CONSUMER_RIG_H_
#define SCD_TESTS_CONSUMER_CONSUMER_RIG_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/support/consumer_client.h"
#include "tests/support/hostile_producer.h"
#include "tests/support/in_process_daemon.h"
#include "tests/support/temp_dir.h"

namespace scd::testing {

struct RigOptions {
  std::string consumer_yaml = {};  // further lines
  // Of the consumer; without sharing each request goes its whole way, whatever came before it.
  std::string kv_cache = "pages: 64, page_tokens: 16, prefix_sharing: false";
  std::string plan = "native_tail: 2";
  std::string codec = "f32";
  std::vector<std::int32_t> untranslatable_ids = {};
  std::vector<std::int64_t> patch_layers = {1};
  std::int64_t transfer_timeout_ms = 5000;
  std::int64_t code_store_mib = 0;
  std::int64_t code_store_block_tokens = 16;
  std::int64_t chunk_tokens = 64;  // of the producer's prefill
  bool with_bundle = true;         // false: a consumer that knows only mode local
};

class ConsumerRig {
 public:
  explicit ConsumerRig(const RigOptions& options = {});

  HostileProducer& hostile() { return *hostile_; }
  InProcessDaemon& consumer() { return *consumer_; }
  InProcessDaemon& producer() { return *producer_; }
  v1::Consumer::Stub& stub() { return client_->stub(); }

  // Starts the honest producer (again) on `port`, or ends it.
  void StartProducer(int port = 0);
  void StopProducer() { producer_.reset(); }

  // Ids of the tiny model's vocabulary, the same for equal arguments.
  static std::vector<std::int32_t> Prompt(std::size_t length, unsigned seed = 1);

  static v1::GenerateRequest Request(const std::vector<std::int32_t>& prompt, const std::string& mode,
                                     v1::Policy policy, std::uint32_t max_tokens = 8) {
    return ConsumerClient::Request(prompt, mode, policy, max_tokens);
  }
  Answer Generate(const v1::GenerateRequest& request, double deadline_seconds = 20) {
    return client_->Generate(request, deadline_seconds);
  }
  grpc::Status Score(const v1::ScoreRequest& request, v1::ScoreResponse* response) {
    return client_->Score(request, response);
  }
  v1::ConsumerInfo Info() { return client_->Info(); }
  bool BecomesIdle(double seconds) { return client_->BecomesIdle(seconds); }

 private:
  TempDir dir_;
  std::string model_;
  std::string bundle_;
  RigOptions options_;
  std::unique_ptr<InProcessDaemon> producer_;
  std::unique_ptr<HostileProducer> hostile_;
  std::unique_ptr<InProcessDaemon> consumer_;
  std::unique_ptr<ConsumerClient> client_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_CONSUMER_CONSUMER_RIG_H_
