// scd-producer and scd-consumer as processes on loopback, with the shipped configurations and what a test
// overrides.
#ifndef SCD_TESTS_E2E_DAEMON_PAIR_H_
#define SCD_TESTS_E2E_DAEMON_PAIR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scd/v1/producer.grpc.pb.h"
#include "tests/support/consumer_client.h"
#include "tests/support/daemon.h"

namespace scd::testing {

struct PairFiles {
  std::string producer_model;
  std::string consumer_model;
  std::string consumer_adapter;
  std::string bundle;
  std::vector<std::string> consumer_settings;  // further "a.b=c"
  std::vector<std::string> producer_settings;
};

// The attentive tiny model on both sides and the identity bundle, in `folder`.
absl::StatusOr<PairFiles> MakeTinyPair(const std::string& folder);
// Base and expert with a bundle of theirs.
PairFiles RealPair(const std::string& base_model, const std::string& bundle);

// Command lines that serve on free ports.
std::vector<std::string> ProducerArguments(const PairFiles& files, int port = 0);
std::vector<std::string> ConsumerArguments(const PairFiles& files, const std::string& producer_address);

class DaemonPair {
 public:
  static absl::StatusOr<std::unique_ptr<DaemonPair>> Start(const PairFiles& files);

  DaemonProcess& producer() { return *producer_; }
  DaemonProcess& consumer() { return *consumer_; }
  ConsumerClient& client() { return *client_; }

  // Ends the producer with SIGKILL and starts it again on the same port.
  absl::Status RestartProducer();
  void KillProducer();

  // Whether within `seconds` neither daemon has a request in flight nor the consumer a page in use.
  bool BecomesIdle(double seconds);

 private:
  explicit DaemonPair(const PairFiles& files) : files_(files) {}

  const PairFiles files_;
  std::unique_ptr<DaemonProcess> producer_;
  std::unique_ptr<DaemonProcess> consumer_;
  std::unique_ptr<ConsumerClient> client_;
  std::unique_ptr<v1::Producer::Stub> producer_stub_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_E2E_DAEMON_PAIR_H_
