// Counts the requests that a daemon works on, and refuses new ones while it drains.
#ifndef SCD_COMMON_SERVER_REQUEST_TRACKER_H_
#define SCD_COMMON_SERVER_REQUEST_TRACKER_H_

#include <cstdint>
#include <stop_token>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace scd {

// Thread-safe. Outlives its leases.
class RequestTracker {
 public:
  // One request in flight, until it dies or is moved from.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept : tracker_(std::exchange(other.tracker_, nullptr)) {}
    Lease& operator=(Lease&& other) noexcept {
      Release();
      tracker_ = std::exchange(other.tracker_, nullptr);
      return *this;
    }
    ~Lease() { Release(); }
    void Release();

   private:
    friend class RequestTracker;
    explicit Lease(RequestTracker* tracker) : tracker_(tracker) {}
    RequestTracker* tracker_ = nullptr;
  };

  // UNAVAILABLE while draining.
  absl::StatusOr<Lease> Admit();

  // From now on nothing is admitted.
  void StartDraining();
  // Until nothing is in flight (true), or `timeout` passed or `stop` was asked for (false).
  bool WaitIdle(absl::Duration timeout, std::stop_token stop = {});

  std::int64_t num_in_flight() const;

 private:
  mutable absl::Mutex mutex_;
  std::int64_t num_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace scd

#endif  // SCD_COMMON_SERVER_REQUEST_TRACKER_H_
