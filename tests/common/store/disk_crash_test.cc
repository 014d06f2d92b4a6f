// kill -9 of a process that writes blocks, many times over one folder: whatever is there afterwards is
// exactly what was inserted. SCD_TEST_KILLS sets how often.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>

#include "common/store/disk_code_store.h"
#include "gtest/gtest.h"
#include "tests/common/store/block_samples.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using testing::Find;
using testing::NumberedBlock;
using testing::NumberedName;
using testing::SameBlock;

constexpr std::uint64_t kBlocks = 400;

DiskCodeStoreOptions Options(const std::string& path) {
  DiskCodeStoreOptions options;
  options.path = path;
  options.capacity_bytes = 200 * 4096;  // files are removed all the time too
  options.max_queued_bytes = 1 << 16;
  options.upkeep_interval = absl::Milliseconds(10);
  return options;
}

// Writes blocks until it is killed; one byte on `ready` says that it begins.
[[noreturn]] void WriteForEver(const std::string& path, int ready, unsigned seed) {
  auto store = DiskCodeStore::Create(Options(path));
  if (!store.ok()) _exit(1);
  if (write(ready, "x", 1) != 1) _exit(1);
  std::mt19937 random(seed);
  for (;;) {
    const std::uint64_t number = random() % kBlocks;
    const Digest key = NumberedName(number);
    const auto found = Find(**store, key);
    if (found != nullptr && !SameBlock(*found, *NumberedBlock(number))) _exit(2);
    (*store)->Insert(absl::MakeConstSpan(&key, 1), NumberedBlock(number));
  }
}

TEST(DiskCrashTest, AKilledWriterLeavesNoWrongBlock) {
  const testing::TempDir dir;
  const std::string path = dir.File("codes");
  const char* const wanted = std::getenv("SCD_TEST_KILLS");
  const int num_kills = wanted == nullptr ? 25 : std::atoi(wanted);
  ASSERT_GT(num_kills, 0);
  std::mt19937 random(7);
  std::int64_t num_checked = 0;
  int num_cut_short = 0;
  for (int kill_index = 0; kill_index < num_kills; ++kill_index) {
    std::array<int, 2> ready{};
    ASSERT_EQ(pipe(ready.data()), 0);
    const unsigned seed = static_cast<unsigned>(kill_index);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) WriteForEver(path, ready[1], seed);
    close(ready[1]);
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    usleep(random() % 60'000);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "exit " << WEXITSTATUS(status);
    if (!std::filesystem::is_empty(path + "/writing")) ++num_cut_short;

    const auto store = DiskCodeStore::Create(Options(path));
    ASSERT_TRUE(store.ok()) << store.status();
    for (std::uint64_t number = 0; number < kBlocks; ++number) {
      const auto block = Find(**store, NumberedName(number));
      if (block == nullptr) continue;
      ++num_checked;
      ASSERT_TRUE(SameBlock(*block, *NumberedBlock(number))) << number;
    }
    // Not even one that had to be refused.
    const CodeStoreStats stats = (*store)->stats()[0];
    EXPECT_EQ(stats.dropped_corrupt, 0);
    EXPECT_EQ(stats.read_failures, 0);
    EXPECT_EQ(stats.hits, stats.num_blocks);
  }
  EXPECT_GT(num_checked, num_kills);
  RecordProperty("blocks_checked", std::to_string(num_checked));
  RecordProperty("writes_cut_short", num_cut_short);
  std::cout << num_kills << " kills, " << num_cut_short << " within a write, " << num_checked
            << " blocks read and right" << std::endl;
}

}  // namespace
}  // namespace scd
