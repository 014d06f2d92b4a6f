#include "consumer/prefix_keys.h"

#include <numeric>
#include <set>

#include "gtest/gtest.h"

namespace scd {
namespace {

std::vector<std::int32_t> Tokens() {
  std::vector<std::int32_t> tokens(20);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

PrefixKeysOptions Options() {
  return {.model = DigestBuilder("model").Finish(),
          .weights = "dense",
          .kv_dtype = DType::kF32,
          .page_tokens = 8,
          .bundle = DigestBuilder("bundle").Finish()};
}

LayerPlan Plan() {
  LayerPlan plan;
  plan.layers = {{.treatment = LayerTreatment::kReuse, .rank_k = 4, .rank_v = 6},
                 {.treatment = LayerTreatment::kPatch, .rank_h = 9}};
  return plan;
}

TEST(PrefixKeysTest, WithoutOptionsNothingIsShared) {
  EXPECT_TRUE(PrefixKeys().Native(Tokens()).empty());
  EXPECT_TRUE(PrefixKeys().Rebuilt("scd", Plan(), Tokens()).empty());
}

TEST(PrefixKeysTest, WhateverTheStateDependsOnSeparatesIt) {
  std::set<Digest> seen;
  const auto expect_new = [&](const std::vector<Digest>& keys) {
    EXPECT_EQ(keys.size(), 2u);
    for (const Digest& key : keys) EXPECT_TRUE(seen.insert(key).second);
  };
  const PrefixKeys keys(Options());
  expect_new(keys.Native(Tokens()));
  expect_new(keys.Rebuilt("scd", Plan(), Tokens()));
  expect_new(keys.Rebuilt("reuse", Plan(), Tokens()));
  for (int change = 0; change < 8; ++change) {
    LayerPlan plan = Plan();
    if (change == 0) plan.codec = Codec::kInt8;
    if (change == 1) ++plan.native_head;
    if (change == 2) plan.layers[0].rank_k = 5;
    if (change == 3) plan.layers[0].rank_v = 5;
    if (change == 4) plan.layers[1].rank_h = 5;
    if (change == 5) plan.layers[1].treatment = LayerTreatment::kRaw;
    if (change == 6) plan.layers[1] = {.treatment = LayerTreatment::kPatch, .rank_h = 4};
    if (change == 7) plan.rate_point = 1;
    expect_new(keys.Rebuilt("scd", plan, Tokens()));
  }
  for (int change = 0; change < 3; ++change) {
    PrefixKeysOptions options = Options();
    if (change == 0) options.model = DigestBuilder("model with an adapter").Finish();
    if (change == 1) options.weights = "int8";
    if (change == 2) options.kv_dtype = DType::kBF16;
    expect_new(PrefixKeys(options).Native(Tokens()));
    expect_new(PrefixKeys(options).Rebuilt("scd", Plan(), Tokens()));
  }
  PrefixKeysOptions options = Options();
  options.bundle = DigestBuilder("another bundle").Finish();
  EXPECT_EQ(PrefixKeys(options).Native(Tokens()), keys.Native(Tokens()));
  expect_new(PrefixKeys(options).Rebuilt("scd", Plan(), Tokens()));
}

TEST(PrefixKeysTest, FusedLayersShareWholeGranulesOnly) {
  LayerPlan plan;
  plan.layers = {{.treatment = LayerTreatment::kFused, .rank_kv = 9}};
  std::vector<std::int32_t> tokens(70);
  std::iota(tokens.begin(), tokens.end(), 0);
  PrefixKeysOptions options = Options();
  EXPECT_TRUE(PrefixKeys(options).Rebuilt("fused", plan, tokens).empty());  // pages of 8
  options.page_tokens = 32;
  const std::vector<Digest> keys = PrefixKeys(options).Rebuilt("fused", plan, tokens);
  EXPECT_EQ(keys.size(), 2u);
  ++plan.layers[0].rank_kv;
  EXPECT_NE(PrefixKeys(options).Rebuilt("fused", plan, tokens), keys);
}

TEST(PrefixKeysTest, TheNativeTailDoesNotMatter) {
  const PrefixKeys keys(Options());
  LayerPlan plan = Plan();
  plan.native_tail += 5;
  EXPECT_EQ(keys.Rebuilt("scd", plan, Tokens()), keys.Rebuilt("scd", Plan(), Tokens()));
}

}  // namespace
}  // namespace scd
