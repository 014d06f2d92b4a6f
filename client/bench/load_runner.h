// Runs levels of load against one consumer.
//
// In an open loop requests start when they are due, however slow the answers to earlier ones are, and their
// latency counts from when they were due: a server that stalls is charged for everybody who waits meanwhile.
#ifndef SCD_CLIENT_BENCH_LOAD_RUNNER_H_
#define SCD_CLIENT_BENCH_LOAD_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/bench/level_result.h"
#include "scd/v1/consumer.grpc.pb.h"

namespace scd {

class LoadRunner {
 public:
  struct Target {
    std::string address;
    std::uint32_t channels = 1;
    absl::Duration deadline = absl::InfiniteDuration();  // of each request
  };
  // When a level ends; at least one of the two is finite. What has started is always waited for.
  struct Limits {
    std::uint64_t requests = 0;                          // 0: no limit
    absl::Duration duration = absl::InfiniteDuration();  // no request starts later
  };
  // The request with this index; called from several threads.
  using RequestOf = std::function<v1::GenerateRequest(std::uint64_t index)>;
  // Called about ten times a second and at the end, from a thread of its own, with requests that ended and
  // seconds gone by.
  using OnProgress = std::function<void(std::int64_t ended, double seconds)>;

  // Where `stop` is requested, a level ends early, its requests in flight cancelled: they count as errors.
  LoadRunner(const Target& target, std::stop_token stop);
  ~LoadRunner();

  // A client whose request failed waits before its next one: 0.1 s, up to 1 s while one after the other
  // fails.
  LevelResult RunClosed(std::uint32_t concurrency, const Limits& limits, const RequestOf& request_of,
                        const OnProgress& on_progress);
  LevelResult RunOpen(double rate_per_s, std::uint64_t seed, const Limits& limits,
                      const RequestOf& request_of, const OnProgress& on_progress);

 private:
  class Level;

  const Target target_;
  const std::stop_token stop_;
  std::vector<std::unique_ptr<v1::Consumer::Stub>> stubs_;
};

}  // namespace scd

#endif  // SCD_CLIENT_BENCH_LOAD_RUNNER_H_
