#include "kernels/cpu/rows.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace scd::cpu {
namespace {

std::unique_ptr<ThreadPool> MakePool(int num_threads) {
  auto pool = ThreadPool::Create(num_threads);
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *std::move(pool);
}

TEST(RunWithScratchTest, RunsEachTaskOnceInMemoryOfItsRunner) {
  constexpr std::size_t kFloats = 32;
  for (const int runners : {1, 3}) {
    const auto pool = MakePool(runners);
    for (const std::int64_t count : {0, 1, 200}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
      std::atomic<int> disturbed{0};
      const auto task = [&](std::int64_t i, float* scratch) {
        for (std::size_t f = 0; f < kFloats; ++f) scratch[f] = static_cast<float>(i);
        ++runs[static_cast<std::size_t>(i)];
        for (std::size_t f = 0; f < kFloats; ++f) disturbed += scratch[f] != static_cast<float>(i) ? 1 : 0;
        return absl::OkStatus();
      };
      EXPECT_EQ(RunWithScratch(*pool, runners, count, {kFloats, "a test"}, task), absl::OkStatus());
      for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1);
      EXPECT_EQ(disturbed, 0);
    }
  }
}

TEST(RunWithScratchTest, AnErrorIsAnsweredAndTheOtherTasksRun) {
  const auto pool = MakePool(2);
  std::atomic<int> runs{0};
  const absl::Status status =
      RunWithScratch(*pool, 2, 9, {1, "a test"}, [&](std::int64_t i, float*) -> absl::Status {
        ++runs;
        return i == 4 ? absl::InternalError("the fourth") : absl::OkStatus();
      });
  EXPECT_EQ(status, absl::InternalError("the fourth"));
  EXPECT_EQ(runs, 9);
}

TEST(RunWithScratchTest, SaysForWhatThereIsNoMemory) {
  const auto pool = MakePool(1);
  constexpr std::size_t kTooMany = std::numeric_limits<std::size_t>::max() / sizeof(float);
  const absl::Status status = RunWithScratch(*pool, 1, 1, {kTooMany, "a giant"}, [](std::int64_t, float*) {
    ADD_FAILURE() << "ran without memory";
    return absl::OkStatus();
  });
  EXPECT_EQ(status, absl::ResourceExhaustedError("no memory for a giant"));
}

}  // namespace
}  // namespace scd::cpu
