// What load `scd-client bench` puts on a consumer.
#ifndef SCD_CLIENT_BENCH_LOAD_OPTIONS_H_
#define SCD_CLIENT_BENCH_LOAD_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace scd {

// Where prompts come from: a file, else made-up token ids.
struct WorkloadOptions {
  std::optional<std::string> prompts_file = {};      // JSONL, taken in order and again from its begin
  std::vector<std::uint32_t> prompt_tokens = {512};  // lengths of made-up prompts, taken in turns
  // Over 0: every prompt is one common prefix of this length and one of `questions` different ends, in turns.
  std::uint32_t shared_prefix_tokens = 0;
  std::uint32_t questions = 8;
  std::uint32_t question_tokens = 32;
};

struct LoadOptions {
  WorkloadOptions workload;
  // One measurement ("level") for each entry. Closed loop: so many requests at a time, the next one starts
  // when one has ended. Open loop, where `rates` has entries: requests a second, at random times that do not
  // depend on the answers.
  std::vector<std::uint32_t> concurrency = {1};
  std::vector<double> rates;
  std::uint64_t requests = 0;                          // of each level; 0: as many as `duration` allows
  absl::Duration duration = absl::InfiniteDuration();  // of each level: no request starts later
  std::uint64_t seed = 1;                              // of prompts and arrivals
  std::uint32_t warmup_requests = 1;                   // before the first level, not measured
  std::uint32_t channels = 1;                          // connections, used in turns
  bool stop_at_eos = false;                            // false: every answer has max_tokens tokens
  std::optional<std::string> json_file = {};           // "-" is standard output
};

}  // namespace scd

#endif  // SCD_CLIENT_BENCH_LOAD_OPTIONS_H_
