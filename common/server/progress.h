// Tells the operator how far a stage is and how long it will still take: a bar on a terminal, else a line in
// the log now and then. Stages that end within a few seconds say nothing but what they log themselves.
// Thread-safe.
#ifndef SCD_COMMON_SERVER_PROGRESS_H_
#define SCD_COMMON_SERVER_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/server/log.h"

namespace scd {

struct ProgressStyle {
  bool terminal = false;  // standard error is a terminal
  double first_after_s = 3.0;
  double log_interval_s = 10.0;
  double terminal_interval_s = 0.2;
};

class Progress {
 public:
  // `total` units, of which the first `done` were done earlier and say nothing about speed. `log` outlives
  // this.
  Progress(Log& log, const ProgressStyle& style, std::string stage, std::string unit, std::int64_t total,
           std::int64_t done = 0);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Ends the bar's line.
  ~Progress();

  // `done` of the total are done.
  void Set(std::int64_t done);
  void Add(std::int64_t units);

  // "traces: 40 of 90 prefixes, 1 min 12 s left"; without the rest where nothing is known yet.
  static std::string Text(const std::string& stage, const std::string& unit, std::int64_t done,
                          std::int64_t total, double seconds_left);
  // "1 min 12 s".
  static std::string Duration(double seconds);

 private:
  using Clock = std::chrono::steady_clock;
  void Show() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Log& log_;
  const ProgressStyle style_;
  const std::string stage_;
  const std::string unit_;
  const std::int64_t total_;
  const std::int64_t done_before_;
  const Clock::time_point start_;
  absl::Mutex mutex_;
  std::int64_t done_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point last_shown_ ABSL_GUARDED_BY(mutex_);
  bool shown_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace scd

#endif  // SCD_COMMON_SERVER_PROGRESS_H_
