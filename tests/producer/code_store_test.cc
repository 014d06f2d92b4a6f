#include "producer/code_store.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/producer/code_samples.h"

namespace scd {
namespace {

using ::testing::ElementsAre;

using testing::Name;
using testing::Plan;

std::shared_ptr<const CodeBlock> Block(std::size_t bytes, char fill = 'x') {
  auto block = std::make_shared<CodeBlock>();
  block->num_tokens = 1;
  block->payloads.push_back(std::string(bytes, fill));
  return block;
}

TEST(MemoryCodeStoreTest, FindsTheLongestKnownPrefix) {
  MemoryCodeStore store(1 << 20);
  const std::vector<Digest> chain = {Name("1"), Name("2"), Name("3")};
  EXPECT_TRUE(store.FindPrefix(chain).empty());
  store.Insert({chain[0]}, Block(10, 'a'));
  store.Insert(absl::MakeConstSpan(chain).subspan(0, 2), Block(10, 'b'));
  const auto found = store.FindPrefix(chain);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]->payloads[0][0], 'a');
  EXPECT_EQ(found[1]->payloads[0][0], 'b');
  EXPECT_TRUE(store.FindPrefix({Name("2x"), chain[0]}).empty());
}

TEST(MemoryCodeStoreTest, StaysWithinItsBytesAndDropsTheLeastRecentlyUsed) {
  const std::int64_t block_bytes = Block(1000)->size_bytes();
  EXPECT_GT(block_bytes, 1000);
  MemoryCodeStore store(3 * block_bytes);
  for (const char* name : {"a", "b", "c"}) store.Insert({Name(name)}, Block(1000));
  EXPECT_EQ(store.size_bytes(), 3 * block_bytes);
  EXPECT_EQ(store.FindPrefix({Name("a")}).size(), 1u);  // b is the oldest now
  store.Insert({Name("d")}, Block(1000));
  EXPECT_EQ(store.size_bytes(), 3 * block_bytes);
  EXPECT_TRUE(store.FindPrefix({Name("b")}).empty());
  for (const char* name : {"a", "c", "d"}) EXPECT_EQ(store.FindPrefix({Name(name)}).size(), 1u) << name;
}

TEST(MemoryCodeStoreTest, EndsOfAChainGoFirst) {
  const std::int64_t block_bytes = Block(100)->size_bytes();
  MemoryCodeStore store(4 * block_bytes);
  const std::vector<Digest> chain = {Name("1"), Name("2"), Name("3"), Name("4")};
  for (std::size_t i = 1; i <= chain.size(); ++i) {
    store.Insert(absl::MakeConstSpan(chain).subspan(0, i), Block(100));
  }
  store.Insert({Name("other")}, Block(100));
  EXPECT_EQ(store.FindPrefix(chain).size(), 3u);
  store.Insert({Name("another")}, Block(100));
  store.Insert({Name("third")}, Block(100));
  EXPECT_EQ(store.FindPrefix(chain).size(), 2u);
}

TEST(MemoryCodeStoreTest, ABlockLargerThanTheStoreIsNotKept) {
  MemoryCodeStore store(1000);
  store.Insert({Name("small")}, Block(100));
  store.Insert({Name("large")}, Block(5000));
  EXPECT_TRUE(store.FindPrefix({Name("large")}).empty());
  EXPECT_EQ(store.FindPrefix({Name("small")}).size(), 1u);
}

TEST(MemoryCodeStoreTest, ABlockThatIsKnownIsNotCountedTwice) {
  MemoryCodeStore store(1 << 20);
  store.Insert({Name("a")}, Block(100));
  const std::int64_t size = store.size_bytes();
  store.Insert({Name("a")}, Block(100));
  EXPECT_EQ(store.size_bytes(), size);
}

TEST(MemoryCodeStoreTest, WhatIsHandedOutOutlivesItsPlaceInTheStore) {
  MemoryCodeStore store(Block(1000)->size_bytes());
  store.Insert({Name("a")}, Block(1000, 'a'));
  const auto held = store.FindPrefix({Name("a")});
  store.Insert({Name("b")}, Block(1000, 'b'));
  EXPECT_TRUE(store.FindPrefix({Name("a")}).empty());
  EXPECT_EQ(held.at(0)->payloads[0], std::string(1000, 'a'));
}

TEST(PlanColumnsTest, AreInTheOrderOfSending) {
  std::vector<std::string> names;
  for (const CodeColumn& column : PlanColumns(Plan())) {
    names.push_back(std::to_string(column.layer) + std::string(CodeKindName(column.kind)) +
                    std::to_string(column.rank));
  }
  EXPECT_THAT(names, ElementsAre("0k4", "0v6", "1h8"));
}

}  // namespace
}  // namespace scd
