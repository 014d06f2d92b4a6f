#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "hwy/cache_control.h"

namespace scd::cpu {
namespace {

constexpr std::chrono::microseconds kLookOut(50);

// Whether `ready` came true within kLookOut.
template <typename Ready>
bool LookOutFor(const Ready& ready) {
  // About two microseconds, before the system is asked for the time and to let others run.
  constexpr int kPauses = 64;
  for (int i = 0; i < kPauses; ++i) {
    if (ready()) return true;
    hwy::Pause();
  }
  const auto end = std::chrono::steady_clock::now() + kLookOut;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < kPauses / 4; ++i) {
      if (ready()) return true;
      hwy::Pause();
    }
    std::this_thread::yield();
  }
  return ready();
}

}  // namespace

// Lives on the stack of the thread that called ParallelFor.
struct ThreadPool::Job {
  Job(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> function)
      : count(num_tasks), task(function) {}

  bool HasTasks() const { return next.load(std::memory_order_relaxed) < count; }

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
    const std::lock_guard<std::mutex> lock(sleep_mutex_);
    stop_ = true;
  }
  job_or_stop_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(std::int64_t count, absl::FunctionRef<void(std::int64_t)> task) {
  Job job(count, task);
  Slot* slot = count <= 1 || workers_.empty() ? nullptr : TakeSlot();
  if (slot == nullptr) {
    job.Run();
    return;
  }
  slot->job = &job;
  ++num_jobs_;
  if (num_sleeping_ > 0) WakeWorkers(count - 1);
  job.Run();
  slot->job = nullptr;
  WaitForUsers(*slot);
  slot->taken.store(false, std::memory_order_release);
}

ThreadPool::Slot* ThreadPool::TakeSlot() {
  for (Slot& slot : slots_) {
    if (!slot.taken.load(std::memory_order_relaxed) &&
        !slot.taken.exchange(true, std::memory_order_acquire)) {
      return &slot;
    }
  }
  return nullptr;
}

void ThreadPool::WakeWorkers(std::int64_t wanted) {
  { const std::lock_guard<std::mutex> lock(sleep_mutex_); }
  wanted = std::min(wanted, static_cast<std::int64_t>(workers_.size()));
  for (std::int64_t i = 0; i < wanted; ++i) job_or_stop_.notify_one();
}

void ThreadPool::WaitForUsers(Slot& slot) {
  const auto gone = [&slot] { return slot.users == 0; };
  if (LookOutFor(gone)) return;
  std::unique_lock<std::mutex> lock(sleep_mutex_);
  slot.caller_sleeps = true;
  users_gone_.wait(lock, gone);
  slot.caller_sleeps = false;
}

void ThreadPool::Work() {
  std::size_t first = 0;
  while (true) {
    // Read before the slots are looked at: a job that is shown later makes it another number.
    const std::uint64_t seen = num_jobs_;
    while (HelpFrom(first)) first = (first + 1) % kSlots;
    const auto new_job_or_stop = [this, seen] { return stop_ || num_jobs_ != seen; };
    if (!LookOutFor(new_job_or_stop)) {
      std::unique_lock<std::mutex> lock(sleep_mutex_);
      ++num_sleeping_;
      job_or_stop_.wait(lock, new_job_or_stop);
      --num_sleeping_;
    }
    if (stop_) return;
  }
}

bool ThreadPool::HelpFrom(std::size_t first) {
  bool helped = false;
  for (std::size_t i = 0; i < kSlots; ++i) helped = Help(slots_[(first + i) % kSlots]) || helped;
  return helped;
}

bool ThreadPool::Help(Slot& slot) {
  if (slot.job == nullptr) return false;
  ++slot.users;
  Job* job = slot.job;
  const bool helps = job != nullptr && job->HasTasks();
  if (helps) job->Run();
  if (--slot.users == 0 && slot.caller_sleeps) {
    { const std::lock_guard<std::mutex> lock(sleep_mutex_); }
    users_gone_.notify_all();
  }
  return helps;
}

}  // namespace scd::cpu
