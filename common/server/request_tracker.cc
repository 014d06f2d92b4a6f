#include "common/server/request_tracker.h"

#include "absl/status/status.h"

namespace scd {

void RequestTracker::Lease::Release() {
  if (tracker_ == nullptr) return;
  RequestTracker* tracker = std::exchange(tracker_, nullptr);
  const absl::MutexLock lock(&tracker->mutex_);
  --tracker->num_in_flight_;
}

absl::StatusOr<RequestTracker::Lease> RequestTracker::Admit() {
  const absl::MutexLock lock(&mutex_);
  if (draining_) return absl::UnavailableError("the server is shutting down");
  ++num_in_flight_;
  return Lease(this);
}

void RequestTracker::StartDraining() {
  const absl::MutexLock lock(&mutex_);
  draining_ = true;
}

bool RequestTracker::WaitIdle(absl::Duration timeout, std::stop_token stop) {
  // Taking the lock makes the waiter look again.
  const std::stop_callback wake(stop, [this] { const absl::MutexLock lock(&mutex_); });
  const auto over = [this, &stop]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return num_in_flight_ == 0 || stop.stop_requested();
  };
  const absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&over), timeout);
  return num_in_flight_ == 0;
}

std::int64_t RequestTracker::num_in_flight() const {
  const absl::MutexLock lock(&mutex_);
  return num_in_flight_;
}

}  // namespace scd
