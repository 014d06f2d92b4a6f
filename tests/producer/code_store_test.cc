#include "producer/code_store.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

using ::testing::ElementsAre;

Digest Name(const std::string& text) {
  return DigestBuilder("test").AddString(text).Finish();
}

LayerPlan Plan() {
  LayerPlan plan;
  plan.layers = {{.treatment = LayerTreatment::kReuse, .rank_k = 4, .rank_v = 6},
                 {.treatment = LayerTreatment::kPatch, .rank_h = 8}};
  return plan;
}

std::vector<std::int32_t> Tokens(std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::int32_t>(i * 7 % 100);
  return tokens;
}

std::shared_ptr<const CodeBlock> Block(std::size_t bytes, char fill = 'x') {
  auto block = std::make_shared<CodeBlock>();
  block->num_tokens = 1;
  block->payloads.push_back(std::string(bytes, fill));
  return block;
}

TEST(BlockKeysTest, OnlyWholeBlocksHaveNames) {
  const auto count = [](std::int64_t first, std::size_t tokens) {
    return BlockKeys(Name("m"), Name("b"), Plan(), first, Tokens(tokens), 8).size();
  };
  EXPECT_EQ(count(0, 0), 0u);
  EXPECT_EQ(count(0, 7), 0u);
  EXPECT_EQ(count(0, 8), 1u);
  EXPECT_EQ(count(0, 17), 2u);
  EXPECT_EQ(count(1, 16), 1u);
  EXPECT_EQ(count(1, 17), 2u);
}

TEST(BlockKeysTest, APrefixHasTheSameNames) {
  const std::vector<Digest> longer = BlockKeys(Name("m"), Name("b"), Plan(), 1, Tokens(41), 8);
  const std::vector<Digest> shorter = BlockKeys(Name("m"), Name("b"), Plan(), 1, Tokens(20), 8);
  ASSERT_EQ(longer.size(), 5u);
  ASSERT_EQ(shorter.size(), 2u);
  EXPECT_EQ(longer[0], shorter[0]);
  EXPECT_EQ(longer[1], shorter[1]);
}

TEST(BlockKeysTest, WhateverTheCodesDependOnChangesEveryName) {
  const Digest model = Name("m");
  const Digest bundle = Name("b");
  std::vector<std::vector<Digest>> variants;
  variants.push_back(BlockKeys(model, bundle, Plan(), 1, Tokens(33), 8));
  variants.push_back(BlockKeys(Name("m2"), bundle, Plan(), 1, Tokens(33), 8));
  variants.push_back(BlockKeys(model, Name("b2"), Plan(), 1, Tokens(33), 8));
  variants.push_back(BlockKeys(bundle, model, Plan(), 1, Tokens(33), 8));
  for (const std::int64_t first : {0, 2})
    variants.push_back(BlockKeys(model, bundle, Plan(), first, Tokens(33), 8));
  variants.push_back(BlockKeys(model, bundle, Plan(), 1, Tokens(33), 16));
  for (int change = 0; change < 8; ++change) {
    LayerPlan plan = Plan();
    if (change == 0) plan.layers[0].rank_k = 5;
    if (change == 1) plan.layers[0].rank_v = 5;
    if (change == 2) plan.layers[1].rank_h = 5;
    if (change == 3) plan.codec = Codec::kF32;
    if (change == 4) plan.layers.push_back(plan.layers[0]);
    if (change == 6) plan.layers[0].treatment = LayerTreatment::kRaw;
    if (change == 7) plan.layers[0].treatment = LayerTreatment::kRawRoped;
    if (change == 5) std::swap(plan.layers[0], plan.layers[1]);
    variants.push_back(BlockKeys(model, bundle, plan, 1, Tokens(33), 8));
  }
  // A token before the first coded one, and the first coded one.
  for (const std::size_t position : {std::size_t{0}, std::size_t{1}}) {
    std::vector<std::int32_t> tokens = Tokens(33);
    ++tokens[position];
    variants.push_back(BlockKeys(model, bundle, Plan(), 1, tokens, 8));
  }
  std::set<Digest> all;
  std::size_t total = 0;
  for (const std::vector<Digest>& keys : variants) {
    all.insert(keys.begin(), keys.end());
    total += keys.size();
  }
  EXPECT_EQ(all.size(), total);
}

TEST(BlockKeysTest, ALaterTokenChangesTheNamesFromItsBlockOn) {
  std::vector<std::int32_t> tokens = Tokens(32);
  const std::vector<Digest> before = BlockKeys(Name("m"), Name("b"), Plan(), 0, tokens, 8);
  tokens[17] += 1;
  const std::vector<Digest> after = BlockKeys(Name("m"), Name("b"), Plan(), 0, tokens, 8);
  EXPECT_EQ(before[0], after[0]);
  EXPECT_EQ(before[1], after[1]);
  EXPECT_NE(before[2], after[2]);
  EXPECT_NE(before[3], after[3]);
}

TEST(BlockKeysTest, NativeRangesOfThePlanDoNotMatter) {
  LayerPlan plan = Plan();
  plan.native_head = 5;
  plan.native_tail = 99;
  EXPECT_EQ(BlockKeys(Name("m"), Name("b"), plan, 1, Tokens(33), 8),
            BlockKeys(Name("m"), Name("b"), Plan(), 1, Tokens(33), 8));
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
