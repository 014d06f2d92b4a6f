#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <barrier>
#include <chrono>
#include <ctime>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace scd::cpu {
namespace {

std::unique_ptr<ThreadPool> MakePool(int num_threads) {
  auto pool = ThreadPool::Create(num_threads);
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *std::move(pool);
}

TEST(ThreadPoolTest, RunsEachTaskOnce) {
  for (const int threads : {1, 2, 5}) {
    const auto pool = MakePool(threads);
    EXPECT_EQ(pool->num_threads(), threads);
    for (const std::int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
      pool->ParallelFor(count, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
      for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1);
    }
  }
}

TEST(ThreadPoolTest, AllThreadsTakePart) {
  constexpr int kThreads = 4;
  const auto pool = MakePool(kThreads);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  // No task returns before all have started, so each needs a thread of its own.
  std::barrier barrier(kThreads);
  pool->ParallelFor(kThreads, [&](std::int64_t) {
    barrier.arrive_and_wait();
    const std::lock_guard<std::mutex> lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kThreads));
  EXPECT_EQ(seen.count(std::this_thread::get_id()), 1u);
}

TEST(ThreadPoolTest, SeveralCallersAtOnce) {
  const auto pool = MakePool(3);
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        std::atomic<std::int64_t> sum{0};
        pool->ParallelFor(20, [&](std::int64_t i) { sum += i; });
        // All of its own tasks have run when the call returns.
        EXPECT_EQ(sum, 190);
        total += sum;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 500 * 190);
}

TEST(ThreadPoolTest, ACallerDoesNotWaitForAnothersLongTask) {
  const auto pool = MakePool(2);
  std::latch started(2), finish(1);
  // Holds the first caller and the only worker.
  std::thread long_caller([&] {
    pool->ParallelFor(2, [&](std::int64_t) {
      started.count_down();
      finish.wait();
    });
  });
  started.wait();
  int runs = 0;
  pool->ParallelFor(10, [&](std::int64_t) { ++runs; });
  EXPECT_EQ(runs, 10);
  finish.count_down();
  long_caller.join();
}

TEST(ThreadPoolTest, MoreCallersThanItHasRoomFor) {
  constexpr int kCallers = 40;
  const auto pool = MakePool(2);
  // No task returns before all callers have one under way.
  std::latch started(kCallers);
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&] {
      std::atomic<bool> first{true};
      pool->ParallelFor(2, [&](std::int64_t) {
        if (first.exchange(false)) started.arrive_and_wait();
        ++runs;
      });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs, 2 * kCallers);
}

TEST(ThreadPoolTest, WorkersThatSleepAreWoken) {
  const auto pool = MakePool(3);
  for (int round = 0; round < 20; ++round) {
    // Longer than a worker looks out for work.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::barrier barrier(3);
    pool->ParallelFor(3, [&](std::int64_t) { barrier.arrive_and_wait(); });
  }
}

TEST(ThreadPoolTest, IdleWorkersUseNoTime) {
  const auto pool = MakePool(3);
  pool->ParallelFor(100, [](std::int64_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.02);
}

TEST(ThreadPoolTest, StopsWhileIdle) {
  for (int i = 0; i < 50; ++i) MakePool(4);
}

}  // namespace
}  // namespace scd::cpu
