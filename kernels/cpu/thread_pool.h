// The threads of the cpu backend. The calling thread takes part in its own work, so a pool of n threads
// starts n - 1 workers. Idle workers sleep on a condition variable; nothing spins.
#ifndef SCD_KERNELS_CPU_THREAD_POOL_H_
#define SCD_KERNELS_CPU_THREAD_POOL_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace scd::cpu {

class ThreadPool {
 public:
  // num_threads is at least 1. RESOURCE_EXHAUSTED where the system refuses a thread.
  static absl::StatusOr<std::unique_ptr<ThreadPool>> Create(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs task(0) ... task(count - 1), each once and in no order, and returns when all have run. Several
  // threads may call this at once: each makes progress on its own, workers help where they are free. A task
  // must not call ParallelFor.
  void ParallelFor(std::int64_t count, absl::FunctionRef<void(std::int64_t)> task);

 private:
  struct Job;

  ThreadPool() = default;

  void Work();
  // Takes `job` off the list, so that no more workers join it; with mutex_ held.
  void Retire(const Job* job);

  // The standard mutex, not Abseil's: ThreadSanitizer sees through it wherever Abseil was built without it.
  std::mutex mutex_;
  std::condition_variable work_or_stop_;
  std::deque<Job*> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_THREAD_POOL_H_
