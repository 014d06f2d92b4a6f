#include "calibrate/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The error of the job with the lowest index.
class FirstError {
 public:
  void Set(std::int64_t index, absl::Status status) {
    failed_ = true;
    absl::MutexLock lock(&mutex_);
    if (status_.ok() || index < index_) {
      index_ = index;
      status_ = std::move(status);
    }
  }
  bool failed() const { return failed_; }
  absl::Status status() {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  std::atomic<bool> failed_ = false;
  absl::Mutex mutex_;
  std::int64_t index_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

int NumWorkers(int num_threads, std::int64_t num_jobs) {
  const int threads = num_threads > 0 ? num_threads : UsableCores();
  return static_cast<int>(std::clamp<std::int64_t>(num_jobs, 1, threads));
}

WorkerPool::WorkerPool(std::vector<std::unique_ptr<HostMath>> maths) : maths_(std::move(maths)) {}

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Create(int num_threads, std::int64_t max_workers,
                                                               const MathDevice& device) {
  const int threads = num_threads > 0 ? num_threads : UsableCores();
  const int workers = NumWorkers(num_threads, max_workers);
  std::vector<std::unique_ptr<HostMath>> maths;
  for (int i = 0; i < workers; ++i) {
    SCD_ASSIGN_OR_RETURN(auto math, HostMath::Create(threads / workers, device));
    maths.push_back(std::move(math));
  }
  return std::unique_ptr<WorkerPool>(new WorkerPool(std::move(maths)));
}

absl::Status WorkerPool::Run(std::int64_t count,
                             absl::FunctionRef<absl::Status(HostMath&, std::int64_t)> job) {
  std::atomic<std::int64_t> next = 0;
  FirstError error;
  const auto work = [&](HostMath& math) {
    for (std::int64_t i = next++; i < count && !error.failed(); i = next++) {
      if (absl::Status status = job(math, i); !status.ok()) error.Set(i, std::move(status));
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t w = 1; w < maths_.size() && static_cast<std::int64_t>(w) < count; ++w) {
    threads.emplace_back([&, w] { work(*maths_[w]); });
  }
  work(*maths_.front());
  for (std::thread& thread : threads) thread.join();
  return error.status();
}

}  // namespace scd
