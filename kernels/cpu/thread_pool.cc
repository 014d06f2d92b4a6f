#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <atomic>

namespace scd::cpu {

// Lives on the stack of the thread that called ParallelFor, which leaves only when no worker is attached.
struct ThreadPool::Job {
  Job(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> function)
      : count(num_tasks), task(function) {}

  // Runs tasks until none is left to start.
  void Run() {
    for (std::int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      task(i);
    }
  }

  const std::int64_t count;
  const absl::FunctionRef<void(std::int64_t)> task;
  std::atomic<std::int64_t> next{0};
  int attached_workers = 0;  // guarded by the pool's mutex
  absl::CondVar detached;
};

ThreadPool::ThreadPool(int num_threads) {
  for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    work_or_stop_.SignalAll();
  }
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(std::int64_t count, absl::FunctionRef<void(std::int64_t)> task) {
  Job job(count, task);
  if (count <= 1 || workers_.empty()) {
    job.Run();
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    jobs_.push_back(&job);
    const auto wanted = std::min<std::int64_t>(count - 1, static_cast<std::int64_t>(workers_.size()));
    for (std::int64_t i = 0; i < wanted; ++i) work_or_stop_.Signal();
  }
  job.Run();
  absl::MutexLock lock(&mutex_);
  Retire(&job);
  while (job.attached_workers > 0) job.detached.Wait(&mutex_);
}

void ThreadPool::Work() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    while (jobs_.empty() && !stop_) work_or_stop_.Wait(&mutex_);
    if (stop_) return;
    Job* job = jobs_.front();
    ++job->attached_workers;
    mutex_.Unlock();
    job->Run();
    mutex_.Lock();
    Retire(job);
    if (--job->attached_workers == 0) job->detached.Signal();
  }
}

void ThreadPool::Retire(const Job* job) {
  const auto found = std::find(jobs_.begin(), jobs_.end(), job);
  if (found != jobs_.end()) jobs_.erase(found);
}

}  // namespace scd::cpu
