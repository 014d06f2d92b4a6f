// scd-producer and scd-consumer started for one run, on free ports of loopback, with the operator's own YAML.
#ifndef SCD_EVAL_CHILD_DAEMONS_H_
#define SCD_EVAL_CHILD_DAEMONS_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "eval/child_process.h"

namespace scd {

struct DaemonsConfig {
  std::string programs;  // folder of scd-producer, scd-consumer and scd-calibrate; empty: scd-eval's own
  std::string producer_config = "configs/producer.yaml";
  std::string consumer_config = "configs/consumer.yaml";
  std::vector<std::string> producer_set;  // "a.b=c", over the files
  std::vector<std::string> consumer_set;
  std::string bundle;                  // in place of the one that the files name; empty: theirs
  std::int64_t start_timeout_s = 120;  // each daemon has so long until it serves
  std::int64_t stop_timeout_s = 10;    // between SIGTERM and SIGKILL
};

class ChildDaemons {
 public:
  // Returns when both are healthy. An error has the last lines of the log of the daemon at fault: UNAVAILABLE
  // where one ended, DEADLINE_EXCEEDED where one does not serve in time, CANCELLED, NOT_FOUND.
  static absl::StatusOr<std::unique_ptr<ChildDaemons>> Start(const DaemonsConfig& config,
                                                             const std::stop_token& stop);
  ~ChildDaemons();  // ends both, the consumer first

  const std::string& producer_address() const { return producer_address_; }
  const std::string& consumer_address() const { return consumer_address_; }

  // The error of a request; where a daemon has ended meanwhile, that and its last words are added.
  absl::Status Explain(const absl::Status& error) const;

 private:
  explicit ChildDaemons(absl::Duration grace) : grace_(grace) {}

  const absl::Duration grace_;
  std::unique_ptr<ChildProcess> producer_;
  std::unique_ptr<ChildProcess> consumer_;
  std::string producer_address_;
  std::string consumer_address_;
};

// "--config FILE --set ..." of each daemon; the port is left to the system.
std::vector<std::string> ProducerArguments(const DaemonsConfig& config);
std::vector<std::string> ConsumerArguments(const DaemonsConfig& config, const std::string& producer_address);

}  // namespace scd

#endif  // SCD_EVAL_CHILD_DAEMONS_H_
