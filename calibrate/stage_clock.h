// Logs how long a stage took, and how much processor time, when it goes out of scope.
#ifndef SCD_CALIBRATE_STAGE_CLOCK_H_
#define SCD_CALIBRATE_STAGE_CLOCK_H_

#include <chrono>
#include <ctime>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/server/log.h"

namespace scd {

class StageClock {
 public:
  StageClock(Log& log, std::string stage)
      : log_(log), stage_(std::move(stage)), start_(Clock::now()), cpu_start_(CpuSeconds()) {}
  StageClock(const StageClock&) = delete;
  StageClock& operator=(const StageClock&) = delete;
  ~StageClock() {
    log_.Info(absl::StrFormat("%s: %.1f s, %.1f s of all cores together", stage_,
                              std::chrono::duration<double>(Clock::now() - start_).count(),
                              CpuSeconds() - cpu_start_));
  }

 private:
  static double CpuSeconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }

  using Clock = std::chrono::steady_clock;
  Log& log_;
  const std::string stage_;
  const Clock::time_point start_;
  const double cpu_start_;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_STAGE_CLOCK_H_
