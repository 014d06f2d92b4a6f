// Medians of repeated runs, and the time that a benchmark may take.
#ifndef SCD_BENCH_GPU_TIMING_H_
#define SCD_BENCH_GPU_TIMING_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/gpu/options.h"
#include "nlohmann/json.hpp"

namespace scd {

struct Timing {
  std::vector<double> seconds;  // of each run that counts
  double median() const;
};

class Turns {
 public:
  explicit Turns(const GpuBenchmarkOptions& options) : options_(options) {}

  double elapsed_seconds() const;
  // Whether something that takes so long may be begun; where not, `what` is named among what was left out.
  bool HasTimeFor(double seconds, const std::string& what);
  const nlohmann::json& left_out() const { return left_out_; }

  // Runs `work`, which ends when its results are there, once to warm up and then as often as the options say
  // or time allows. Where one run alone takes as long as all may, it counts.
  absl::StatusOr<Timing> Measure(const std::function<absl::Status()>& work) const;

 private:
  using Clock = std::chrono::steady_clock;

  const GpuBenchmarkOptions& options_;
  const Clock::time_point start_ = Clock::now();
  nlohmann::json left_out_ = nlohmann::json::array();
};

}  // namespace scd

#endif  // SCD_BENCH_GPU_TIMING_H_
