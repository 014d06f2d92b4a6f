#include "common/store/memory_code_store.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/common/store/block_samples.h"

namespace scd {
namespace {

using testing::FilledBlock;
using testing::Name;

TEST(MemoryCodeStoreTest, FindsTheLongestKnownPrefix) {
  MemoryCodeStore store(1 << 20);
  const std::vector<Digest> chain = {Name("1"), Name("2"), Name("3")};
  EXPECT_TRUE(store.FindPrefix(chain).empty());
  store.Insert({chain[0]}, FilledBlock(10, 'a'));
  store.Insert(absl::MakeConstSpan(chain).subspan(0, 2), FilledBlock(10, 'b'));
  const auto found = store.FindPrefix(chain);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]->payloads[0][0], 'a');
  EXPECT_EQ(found[1]->payloads[0][0], 'b');
  EXPECT_TRUE(store.FindPrefix({Name("2x"), chain[0]}).empty());
  const std::vector<CodeStoreStats> stats = store.stats();
  ASSERT_EQ(stats.size(), 1u);
  EXPECT_EQ(stats[0].tier, "memory");
  EXPECT_EQ(stats[0].num_blocks, 2);
  EXPECT_EQ(stats[0].size_bytes, store.size_bytes());
  EXPECT_EQ(stats[0].capacity_bytes, 1 << 20);
  EXPECT_EQ(stats[0].hits, 2);
  EXPECT_EQ(stats[0].misses, 3 + 1 + 2);
  EXPECT_EQ(stats[0].evicted, 0);
}

TEST(MemoryCodeStoreTest, StaysWithinItsBytesAndDropsTheLeastRecentlyUsed) {
  const std::int64_t block_bytes = FilledBlock(1000)->size_bytes();
  EXPECT_GT(block_bytes, 1000);
  MemoryCodeStore store(3 * block_bytes);
  for (const char* name : {"a", "b", "c"}) store.Insert({Name(name)}, FilledBlock(1000));
  EXPECT_EQ(store.size_bytes(), 3 * block_bytes);
  EXPECT_EQ(store.FindPrefix({Name("a")}).size(), 1u);  // b is the oldest now
  store.Insert({Name("d")}, FilledBlock(1000));
  EXPECT_EQ(store.size_bytes(), 3 * block_bytes);
  EXPECT_TRUE(store.FindPrefix({Name("b")}).empty());
  for (const char* name : {"a", "c", "d"}) EXPECT_EQ(store.FindPrefix({Name(name)}).size(), 1u) << name;
  EXPECT_EQ(store.stats()[0].evicted, 1);
}

TEST(MemoryCodeStoreTest, EndsOfAChainGoFirst) {
  const std::int64_t block_bytes = FilledBlock(100)->size_bytes();
  MemoryCodeStore store(4 * block_bytes);
  const std::vector<Digest> chain = {Name("1"), Name("2"), Name("3"), Name("4")};
  for (std::size_t i = 1; i <= chain.size(); ++i) {
    store.Insert(absl::MakeConstSpan(chain).subspan(0, i), FilledBlock(100));
  }
  store.Insert({Name("other")}, FilledBlock(100));
  EXPECT_EQ(store.FindPrefix(chain).size(), 3u);
  store.Insert({Name("another")}, FilledBlock(100));
  store.Insert({Name("third")}, FilledBlock(100));
  EXPECT_EQ(store.FindPrefix(chain).size(), 2u);
}

TEST(MemoryCodeStoreTest, ABlockLargerThanTheStoreIsNotKept) {
  MemoryCodeStore store(1000);
  store.Insert({Name("small")}, FilledBlock(100));
  store.Insert({Name("large")}, FilledBlock(5000));
  EXPECT_TRUE(store.FindPrefix({Name("large")}).empty());
  EXPECT_EQ(store.FindPrefix({Name("small")}).size(), 1u);
}

TEST(MemoryCodeStoreTest, ABlockThatIsKnownIsNotCountedTwice) {
  MemoryCodeStore store(1 << 20);
  store.Insert({Name("a")}, FilledBlock(100));
  const std::int64_t size = store.size_bytes();
  store.Insert({Name("a")}, FilledBlock(100));
  EXPECT_EQ(store.size_bytes(), size);
}

TEST(MemoryCodeStoreTest, WhatIsHandedOutOutlivesItsPlaceInTheStore) {
  MemoryCodeStore store(FilledBlock(1000)->size_bytes());
  store.Insert({Name("a")}, FilledBlock(1000, 'a'));
  const auto held = store.FindPrefix({Name("a")});
  store.Insert({Name("b")}, FilledBlock(1000, 'b'));
  EXPECT_TRUE(store.FindPrefix({Name("a")}).empty());
  EXPECT_EQ(held.at(0)->payloads[0], std::string(1000, 'a'));
}

}  // namespace
}  // namespace scd
