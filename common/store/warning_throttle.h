// Warnings about one kind of trouble: the first at once, then at most one in an interval, which says how many
// there were meanwhile. A disk that is full would otherwise write a line for every block.
#ifndef SCD_COMMON_STORE_WARNING_THROTTLE_H_
#define SCD_COMMON_STORE_WARNING_THROTTLE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace scd {

// Thread-safe.
class WarningThrottle {
 public:
  // `warn` may be empty; it is called without locks, from any thread that warns.
  WarningThrottle(std::function<void(const std::string&)> warn, std::function<absl::Time()> now,
                  absl::Duration interval = absl::Minutes(1));

  void Warn(const std::string& text);

 private:
  const std::function<void(const std::string&)> warn_;
  const std::function<absl::Time()> now_;
  const absl::Duration interval_;
  absl::Mutex mutex_;
  absl::Time last_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::int64_t num_kept_back_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace scd

#endif  // SCD_COMMON_STORE_WARNING_THROTTLE_H_
