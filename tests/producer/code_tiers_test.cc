#include "producer/code_tiers.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/store/disk_code_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/store/block_samples.h"
#include "tests/producer/producer_rig.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using testing::FilledBlock;
using testing::Find;
using testing::KeptLog;
using testing::Name;
using testing::TempDir;

class CodeTiersTest : public ::testing::Test {
 protected:
  CodeStoreConfig OnDisk(std::int64_t memory_mib = 1) {
    CodeStoreConfig config;
    config.capacity_mib = memory_mib;
    config.disk.path = dir_.File("codes");
    config.disk.capacity_mib = 2;
    return config;
  }

  TempDir dir_;
  KeptLog log_;
};

TEST_F(CodeTiersTest, ThereAreAsManyTiersAsAreConfigured) {
  const auto none = OpenCodeStore({.capacity_mib = 0, .disk = {}}, log_);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(*none, nullptr);
  EXPECT_EQ(DescribeCodeStore(nullptr), "no code store");
  const auto memory = OpenCodeStore({.capacity_mib = 3, .disk = {}}, log_);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(DescribeCodeStore(memory->get()), "codes in memory (3 MiB)");
  for (const std::int64_t memory_mib : {0, 1}) {
    const auto disk = OpenCodeStore(OnDisk(memory_mib), log_);
    ASSERT_TRUE(disk.ok()) << disk.status();
    EXPECT_EQ(DescribeCodeStore(disk->get()),
              absl::StrCat("codes ", memory_mib == 1 ? "in memory (1 MiB) and " : "", "on disk (",
                           dir_.File("codes"), ", 0 blocks, 0 of 2 MiB)"));
  }
}

TEST_F(CodeTiersTest, WhatIsOnDiskIsThereAgain) {
  for (int run = 0; run < 2; ++run) {
    const auto store = OpenCodeStore(OnDisk(), log_);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(Find(**store, Name("a")) != nullptr, run == 1);
    const Digest key = Name("a");
    (*store)->Insert(absl::MakeConstSpan(&key, 1), FilledBlock(100, 'x', absl::Now()));
  }
  EXPECT_TRUE(log_.lines().empty());
}

TEST_F(CodeTiersTest, ErrorsNameTheField) {
  const auto first = OpenCodeStore(OnDisk(), log_);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = OpenCodeStore(OnDisk(), log_).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()),
              AllOf(HasSubstr("code_store.disk.path: "), HasSubstr("another process")));
  // --check may be run beside a producer that serves.
  EXPECT_TRUE(CheckCodeStore(OnDisk()).ok());
  CodeStoreConfig config = OnDisk();
  config.disk.path = dir_.File("file") + "/codes";
  testing::WriteFile(dir_.File("file"), "x");
  EXPECT_THAT(std::string(CheckCodeStore(config).message()),
              AllOf(HasSubstr("code_store.disk.path: "), HasSubstr("is not a folder")));
  EXPECT_TRUE(CheckCodeStore({.capacity_mib = 0, .disk = {}}).ok());
}

TEST_F(CodeTiersTest, TroubleOnDiskIsWarnedAboutAndCounted) {
  const Digest key = Name("a");
  {
    const auto store = OpenCodeStore(OnDisk(), log_);
    ASSERT_TRUE(store.ok()) << store.status();
    (*store)->Insert(absl::MakeConstSpan(&key, 1), FilledBlock(100, 'x', absl::Now()));
  }
  const std::string path = dir_.File("codes/" + key.ToHex().substr(0, 2) + "/" + key.ToHex() + ".block");
  testing::WriteFile(path, "nonsense");
  const auto store = OpenCodeStore(OnDisk(), log_);
  ASSERT_TRUE(store.ok()) << store.status();
  MetricsRegistry metrics;
  AddCodeStoreMetrics(metrics, **store);
  EXPECT_EQ(Find(**store, key), nullptr);
  ASSERT_EQ(log_.lines().size(), 1u);
  EXPECT_THAT(log_.lines()[0], HasSubstr(path));
  const std::string text = metrics.Serialize();
  for (const char* line :
       {"scd_code_store_bytes{tier=\"memory\"} 0", "scd_code_store_bytes{tier=\"disk\"} 0",
        "scd_code_store_capacity_bytes{tier=\"disk\"} 2097152", "scd_code_store_blocks{tier=\"disk\"} 0",
        "scd_code_store_lookups_total{result=\"hit\",tier=\"memory\"} 0",
        "scd_code_store_lookups_total{result=\"miss\",tier=\"disk\"} 1",
        "scd_code_store_dropped_total{reason=\"corrupt\",tier=\"disk\"} 1",
        "scd_code_store_dropped_total{reason=\"expired\",tier=\"disk\"} 0",
        "scd_code_store_dropped_total{reason=\"room\",tier=\"memory\"} 0",
        "scd_code_store_failures_total{reason=\"write\",tier=\"disk\"} 0",
        "scd_code_store_failures_total{reason=\"read\",tier=\"disk\"} 0",
        "scd_code_store_failures_total{reason=\"queue_full\",tier=\"disk\"} 0"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
}

}  // namespace
}  // namespace scd
