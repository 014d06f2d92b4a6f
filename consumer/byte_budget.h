// Memory that several requests share, given out and taken back by bytes.
#ifndef SCD_CONSUMER_BYTE_BUDGET_H_
#define SCD_CONSUMER_BYTE_BUDGET_H_

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace scd {

// Thread-safe. Outlives its leases.
class ByteBudget {
 public:
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Lease() {
      if (budget_ != nullptr) budget_->Return(bytes_);
    }

   private:
    friend class ByteBudget;
    Lease(ByteBudget* budget, std::int64_t bytes) : budget_(budget), bytes_(bytes) {}
    ByteBudget* budget_ = nullptr;
    std::int64_t bytes_ = 0;
  };

  explicit ByteBudget(std::int64_t bytes) : total_(bytes), free_(bytes) {}

  std::int64_t total() const { return total_; }

  // RESOURCE_EXHAUSTED with both figures.
  absl::StatusOr<Lease> Take(std::int64_t bytes) {
    absl::MutexLock lock(&mutex_);
    if (bytes > free_) {
      return absl::ResourceExhaustedError(absl::StrCat(bytes, " bytes are needed, ", free_, " are free"));
    }
    free_ -= bytes;
    return Lease(this, bytes);
  }

 private:
  void Return(std::int64_t bytes) {
    absl::MutexLock lock(&mutex_);
    free_ += bytes;
  }

  const std::int64_t total_;
  absl::Mutex mutex_;
  std::int64_t free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace scd

#endif  // SCD_CONSUMER_BYTE_BUDGET_H_
