#include "common/store/tiered_code_store.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/store/disk_code_store.h"
#include "common/store/memory_code_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/store/block_samples.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using testing::NumberedBlock;
using testing::NumberedName;
using testing::SameBlock;

class TieredCodeStoreTest : public ::testing::Test {
 protected:
  TieredCodeStoreTest() {
    for (std::uint64_t i = 0; i < 6; ++i) chain_.push_back(NumberedName(i));
    std::vector<std::unique_ptr<CodeStore>> tiers;
    for (MemoryCodeStore*& tier : tiers_) {
      tiers.push_back(std::make_unique<MemoryCodeStore>(1 << 20));
      tier = static_cast<MemoryCodeStore*>(tiers.back().get());
    }
    store_ = std::make_unique<TieredCodeStore>(std::move(tiers));
  }
  static void Insert(CodeStore& store, const std::vector<Digest>& chain, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      store.Insert(absl::MakeConstSpan(chain).first(i + 1), NumberedBlock(i));
    }
  }

  std::vector<Digest> chain_;
  MemoryCodeStore* tiers_[3] = {};
  std::unique_ptr<TieredCodeStore> store_;
};

TEST_F(TieredCodeStoreTest, WhatIsInsertedGoesToEveryTier) {
  Insert(*store_, chain_, 0, 2);
  for (MemoryCodeStore* tier : tiers_) EXPECT_EQ(tier->FindPrefix(chain_).size(), 2u);
}

TEST_F(TieredCodeStoreTest, SlowerTiersAreAskedForTheRestAndFillTheFasterOnes) {
  Insert(*tiers_[0], chain_, 0, 2);
  Insert(*tiers_[1], chain_, 2, 3);
  Insert(*tiers_[2], chain_, 3, 5);
  const auto blocks = store_->FindPrefix(chain_);
  ASSERT_EQ(blocks.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(SameBlock(*blocks[i], *NumberedBlock(i))) << i;
  EXPECT_EQ(tiers_[0]->FindPrefix(chain_).size(), 5u);
  EXPECT_EQ(tiers_[1]->FindPrefix(absl::MakeConstSpan(chain_).subspan(2)).size(), 3u);
  EXPECT_EQ(tiers_[2]->stats()[0].num_blocks, 2);

  // Now the fastest has all of it and nobody else is asked.
  const std::int64_t asked = tiers_[1]->stats()[0].hits + tiers_[1]->stats()[0].misses;
  EXPECT_EQ(store_->FindPrefix(absl::MakeConstSpan(chain_).first(5)).size(), 5u);
  EXPECT_EQ(tiers_[1]->stats()[0].hits + tiers_[1]->stats()[0].misses, asked);
}

TEST_F(TieredCodeStoreTest, WhatNobodyKnowsEndsThePrefix) {
  Insert(*tiers_[2], chain_, 0, 1);
  Insert(*tiers_[1], chain_, 2, 4);
  EXPECT_EQ(store_->FindPrefix(chain_).size(), 1u);
  EXPECT_TRUE(store_->FindPrefix({}).empty());
}

TEST_F(TieredCodeStoreTest, CountsTierByTier) {
  Insert(*tiers_[0], chain_, 0, 1);
  Insert(*tiers_[2], chain_, 1, 3);
  EXPECT_EQ(store_->FindPrefix(chain_).size(), 3u);
  const std::vector<CodeStoreStats> stats = store_->stats();
  ASSERT_EQ(stats.size(), 3u);
  EXPECT_EQ(stats[0].hits, 1);
  EXPECT_EQ(stats[0].misses, 5);
  EXPECT_EQ(stats[1].hits, 0);
  EXPECT_EQ(stats[1].misses, 5);
  EXPECT_EQ(stats[2].hits, 2);
  EXPECT_EQ(stats[2].misses, 3);
}

TEST(TieredCodeStoreOverDiskTest, MemoryLearnsAgainWhatTheDiskKept) {
  const testing::TempDir dir;
  const std::vector<Digest> chain = {NumberedName(0), NumberedName(1), NumberedName(2)};
  for (int run = 0; run < 2; ++run) {
    DiskCodeStoreOptions options;
    options.path = dir.File("codes");
    options.capacity_bytes = 1 << 20;
    auto disk = DiskCodeStore::Create(options);
    ASSERT_TRUE(disk.ok()) << disk.status();
    std::vector<std::unique_ptr<CodeStore>> tiers;
    tiers.push_back(std::make_unique<MemoryCodeStore>(1 << 20));
    tiers.push_back(*std::move(disk));
    TieredCodeStore store(std::move(tiers));
    if (run == 0) {
      for (std::size_t i = 0; i < 3; ++i) {
        store.Insert(absl::MakeConstSpan(chain).first(i + 1), NumberedBlock(i));
      }
      continue;
    }
    for (int round = 0; round < 2; ++round) {
      const auto blocks = store.FindPrefix(chain);
      ASSERT_EQ(blocks.size(), 3u);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(SameBlock(*blocks[i], *NumberedBlock(i)));
    }
    EXPECT_EQ(store.stats()[0].hits, 3);
    EXPECT_EQ(store.stats()[1].hits, 3);
  }
}

}  // namespace
}  // namespace scd
