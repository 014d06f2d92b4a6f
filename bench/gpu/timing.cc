#include "bench/gpu/timing.h"

#include <algorithm>

#include "kernels/status_macros.h"

namespace scd {

double Timing::median() const {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double Turns::elapsed_seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

bool Turns::HasTimeFor(double seconds, const std::string& what) {
  if (elapsed_seconds() + seconds < options_.limit_seconds) return true;
  left_out_.push_back(what);
  return false;
}

absl::StatusOr<Timing> Turns::Measure(const std::function<absl::Status()>& work) const {
  Timing timing;
  double total = 0;
  for (int run = 0; run <= options_.repeats; ++run) {
    const Clock::time_point begin = Clock::now();
    SCD_RETURN_IF_ERROR(work());
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    total += seconds;
    const bool last = total + seconds > options_.turn_seconds;
    if (run > 0 || last) timing.seconds.push_back(seconds);
    if (last) break;
  }
  return timing;
}

}  // namespace scd
