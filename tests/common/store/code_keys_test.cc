#include "common/store/code_keys.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/cache/block_keys.h"
#include "gtest/gtest.h"
#include "tests/common/store/block_samples.h"

namespace scd {
namespace {

using testing::Name;
using testing::Plan;

std::vector<std::int32_t> Tokens(std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::int32_t>(i * 7 % 100);
  return tokens;
}

// Keys of blocks of 8 tokens.
std::vector<Digest> Keys(std::int64_t first_token, const std::vector<std::int32_t>& tokens,
                         const LayerPlan& plan = Plan(), const Digest& bundle = Name("b"),
                         const Digest& seed = Name("m")) {
  return CodeKeys(bundle, plan, first_token, BlockKeys(seed, tokens, 8), 8);
}

TEST(CodeKeysTest, WholeBlocksFromTheFirstCodeOnHaveNames) {
  EXPECT_EQ(Keys(0, Tokens(7)).size(), 0u);
  EXPECT_EQ(Keys(0, Tokens(8)).size(), 1u);
  EXPECT_EQ(Keys(0, Tokens(17)).size(), 2u);
  EXPECT_EQ(Keys(7, Tokens(17)).size(), 2u);
  EXPECT_EQ(Keys(8, Tokens(17)).size(), 1u);
  EXPECT_EQ(Keys(16, Tokens(17)).size(), 0u);
}

TEST(CodeKeysTest, RequestsThatBeginElsewhereShareAllButTheirFirstBlock) {
  const std::vector<Digest> zero = Keys(0, Tokens(33));
  const std::vector<Digest> one = Keys(1, Tokens(33));
  const std::vector<Digest> later = Keys(16, Tokens(33));
  ASSERT_EQ(one.size(), 4u);
  EXPECT_NE(zero[0], one[0]);
  EXPECT_NE(one[0], Keys(2, Tokens(33))[0]);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(zero[i], one[i]);
  ASSERT_EQ(later.size(), 2u);
  EXPECT_EQ(later[0], zero[2]);
  EXPECT_EQ(later[1], zero[3]);
}

TEST(CodeKeysTest, WhateverTheCodesDependOnChangesEveryName) {
  std::vector<std::vector<Digest>> variants = {Keys(1, Tokens(33)), Keys(1, Tokens(33), Plan(), Name("b2")),
                                               Keys(1, Tokens(33), Plan(), Name("b"), Name("m2")),
                                               Keys(1, Tokens(33), Plan(), Name("m"), Name("b"))};
  for (int change = 0; change < 10; ++change) {
    LayerPlan plan = Plan();
    if (change == 0) plan.layers[0].rank_k = 5;
    if (change == 1) plan.layers[0].rank_v = 5;
    if (change == 2) plan.layers[1].rank_h = 5;
    if (change == 3) plan.codec = Codec::kF32;
    if (change == 4) plan.layers.push_back(plan.layers[0]);
    if (change == 5) std::swap(plan.layers[0], plan.layers[1]);
    if (change == 6) plan.layers[0].treatment = LayerTreatment::kRaw;
    if (change == 7) plan.layers[0].treatment = LayerTreatment::kRawRoped;
    if (change == 8) plan.layers[0] = {.treatment = LayerTreatment::kFused, .rank_kv = 5};
    if (change == 9) plan.rate_point = 1;
    variants.push_back(Keys(1, Tokens(33), plan));
  }
  // A token before the first coded one, and the first coded one.
  for (const std::size_t position : {std::size_t{0}, std::size_t{1}}) {
    std::vector<std::int32_t> tokens = Tokens(33);
    ++tokens[position];
    variants.push_back(Keys(1, tokens));
  }
  std::set<Digest> all;
  std::size_t total = 0;
  for (const std::vector<Digest>& keys : variants) {
    all.insert(keys.begin(), keys.end());
    total += keys.size();
  }
  EXPECT_EQ(all.size(), total);
}

TEST(CodeKeysTest, ALaterTokenChangesTheNamesFromItsBlockOn) {
  std::vector<std::int32_t> tokens = Tokens(32);
  const std::vector<Digest> before = Keys(0, tokens);
  tokens[17] += 1;
  const std::vector<Digest> after = Keys(0, tokens);
  EXPECT_EQ(before[0], after[0]);
  EXPECT_EQ(before[1], after[1]);
  EXPECT_NE(before[2], after[2]);
  EXPECT_NE(before[3], after[3]);
}

TEST(CodeKeysTest, NativeRangesOfThePlanDoNotMatter) {
  LayerPlan plan = Plan();
  plan.native_head = 5;
  plan.native_tail = 99;
  EXPECT_EQ(Keys(1, Tokens(33), plan), Keys(1, Tokens(33)));
}

TEST(CodeKeysTest, TheSeedNamesModelWeightsAndPages) {
  const std::set<Digest> seeds = {
      StateSeed(Name("m"), "dense", DType::kF32), StateSeed(Name("n"), "dense", DType::kF32),
      StateSeed(Name("m"), "int8", DType::kF32), StateSeed(Name("m"), "dense", DType::kBF16)};
  EXPECT_EQ(seeds.size(), 4u);
}

}  // namespace
}  // namespace scd
