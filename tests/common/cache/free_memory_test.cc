#include "common/cache/free_memory.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

class FreeMemoryTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = std::filesystem::path(root()) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root() const { return dir_.path() + "/"; }

  testing::TempDir dir_;
};

TEST_F(FreeMemoryTest, SaysWhatTheMachineSays) {
  EXPECT_EQ(FreeMemoryBytes(root()).status().code(), absl::StatusCode::kUnavailable);
  Write("proc/meminfo", "MemTotal:       100 kB\nMemAvailable:       64 kB\n");
  EXPECT_EQ(*FreeMemoryBytes(root()), 64 * 1024);
  Write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(*FreeMemoryBytes(root()), 64 * 1024);
}

TEST_F(FreeMemoryTest, TheTightestGroupCounts) {
  Write("proc/meminfo", "MemAvailable:       64 kB\n");
  Write("proc/self/cgroup", "1:name=systemd:/x\n0::/outer/inner\n");
  Write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  Write("sys/fs/cgroup/outer/inner/memory.current", "1000\n");
  EXPECT_EQ(*FreeMemoryBytes(root()), 64 * 1024);
  Write("sys/fs/cgroup/outer/memory.max", "50000\n");
  Write("sys/fs/cgroup/outer/memory.current", "20000\n");
  EXPECT_EQ(*FreeMemoryBytes(root()), 30000);
  Write("sys/fs/cgroup/outer/inner/memory.max", "900\n");  // over its limit
  EXPECT_EQ(*FreeMemoryBytes(root()), 0);
}

TEST_F(FreeMemoryTest, ThisMachineHasSome) {
  const auto bytes = FreeMemoryBytes();
  if (!bytes.ok()) GTEST_SKIP() << bytes.status();
  EXPECT_GT(*bytes, std::int64_t{1} << 20);
}

}  // namespace
}  // namespace scd
