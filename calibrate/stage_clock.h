// Logs how long a stage took when it goes out of scope.
#ifndef SCD_CALIBRATE_STAGE_CLOCK_H_
#define SCD_CALIBRATE_STAGE_CLOCK_H_

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/server/log.h"

namespace scd {

class StageClock {
 public:
  StageClock(Log& log, std::string stage) : log_(log), stage_(std::move(stage)), start_(Clock::now()) {}
  StageClock(const StageClock&) = delete;
  StageClock& operator=(const StageClock&) = delete;
  ~StageClock() {
    log_.Info(
        absl::StrFormat("%s: %.1f s", stage_, std::chrono::duration<double>(Clock::now() - start_).count()));
  }

 private:
  using Clock = std::chrono::steady_clock;
  Log& log_;
  const std::string stage_;
  const Clock::time_point start_;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_STAGE_CLOCK_H_
