// The threads of the cpu backend. The calling thread takes part in its own work, so a pool of n threads
// starts n - 1 workers. A worker that has run out of work looks out for more for some tens of microseconds,
// which is how soon the next op of a decode step comes, giving way to other threads; then it sleeps. Nothing
// spins while idle.
#ifndef SCD_KERNELS_CPU_THREAD_POOL_H_
#define SCD_KERNELS_CPU_THREAD_POOL_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

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

  // Where a caller shows its job to the workers. A worker counts itself as a user before it reads `job`; the
  // caller takes the job away before it waits for the users to be gone: so either the worker finds no job, or
  // the caller waits for it.
  struct alignas(64) Slot {
    std::atomic<bool> taken{false};
    std::atomic<Job*> job{nullptr};
    std::atomic<int> users{0};
    std::atomic<bool> caller_sleeps{false};
  };

  // Callers beyond these run their tasks alone.
  static constexpr std::size_t kSlots = 16;

  ThreadPool() = default;

  Slot* TakeSlot();
  void WakeWorkers(std::int64_t wanted);
  void WaitForUsers(Slot& slot);
  void Work();
  // Joins the jobs on show, the one of slot `first` first; whether there was one with tasks left.
  bool HelpFrom(std::size_t first);
  bool Help(Slot& slot);

  std::array<Slot, kSlots> slots_;
  // Counts jobs; what it was says whether there is a new one.
  std::atomic<std::uint64_t> num_jobs_{0};
  std::atomic<int> num_sleeping_{0};
  std::atomic<bool> stop_{false};
  // The standard mutex, not Abseil's: ThreadSanitizer sees through it wherever Abseil was built without it.
  // Guards no data: whoever sleeps checks once more while it holds this, whoever wakes takes it before.
  std::mutex sleep_mutex_;
  std::condition_variable job_or_stop_;
  std::condition_variable users_gone_;
  std::vector<std::thread> workers_;
};

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_THREAD_POOL_H_
