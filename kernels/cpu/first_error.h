// Keeps the first error of tasks that run side by side.
#ifndef SCD_KERNELS_CPU_FIRST_ERROR_H_
#define SCD_KERNELS_CPU_FIRST_ERROR_H_

#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

namespace scd::cpu {

class FirstError {
 public:
  void Update(absl::Status status) {
    if (status.ok()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    status_.Update(std::move(status));
  }

  absl::Status status() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_FIRST_ERROR_H_
