#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

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
  std::condition_variable detached;
};

absl::StatusOr<std::unique_ptr<ThreadPool>> ThreadPool::Create(int num_threads) {
  auto pool = absl::WrapUnique(new ThreadPool);
  try {
    for (int i = 1; i < num_threads; ++i) {
      pool->workers_.emplace_back([raw = pool.get()] { raw->Work(); });
    }
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot start thread ", pool->num_threads() + 1, " of ",
                                                     num_threads, ": ", error.what()));
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  work_or_stop_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(std::int64_t count, absl::FunctionRef<void(std::int64_t)> task) {
  Job job(count, task);
  if (count <= 1 || workers_.empty()) {
    job.Run();
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back(&job);
  }
  const auto wanted = std::min<std::int64_t>(count - 1, static_cast<std::int64_t>(workers_.size()));
  for (std::int64_t i = 0; i < wanted; ++i) work_or_stop_.notify_one();
  job.Run();
  std::unique_lock<std::mutex> lock(mutex_);
  Retire(&job);
  job.detached.wait(lock, [&job] { return job.attached_workers == 0; });
}

void ThreadPool::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    work_or_stop_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    Job* job = jobs_.front();
    ++job->attached_workers;
    lock.unlock();
    job->Run();
    lock.lock();
    Retire(job);
    if (--job->attached_workers == 0) job->detached.notify_one();
  }
}

void ThreadPool::Retire(const Job* job) {
  const auto found = std::find(jobs_.begin(), jobs_.end(), job);
  if (found != jobs_.end()) jobs_.erase(found);
}

}  // namespace scd::cpu
