#include "consumer/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Probabilities 0.4, 0.3, 0.2, 0.1 of ids 2, 0, 3, 1.
std::vector<float> FourTokens() {
  return {std::log(0.3f), std::log(0.1f), std::log(0.4f), std::log(0.2f)};
}

// How often each id is drawn, as a share.
std::map<std::int32_t, double> Shares(const SamplingParams& params, const std::vector<float>& logits,
                                      const std::vector<std::int32_t>& seen = {}, int draws = 20000) {
  Sampler sampler(params);
  std::map<std::int32_t, double> shares;
  for (int i = 0; i < draws; ++i) {
    const auto token = sampler.Sample(logits, seen);
    EXPECT_TRUE(token.ok()) << token.status();
    shares[token->id] += 1.0 / draws;
  }
  return shares;
}

// Every share within four standard errors of its probability, and nothing else was drawn.
void ExpectShares(const std::map<std::int32_t, double>& shares,
                  const std::map<std::int32_t, double>& expected, int draws = 20000) {
  for (const auto& [id, share] : shares) EXPECT_TRUE(expected.contains(id)) << "id " << id << " was drawn";
  for (const auto& [id, p] : expected) {
    const auto it = shares.find(id);
    EXPECT_NEAR(it == shares.end() ? 0.0 : it->second, p, 4.0 * std::sqrt(p * (1.0 - p) / draws) + 1e-12)
        << "id " << id;
  }
}

TEST(SamplerTest, GreedyTakesTheFirstOfTheBest) {
  Sampler sampler({});
  EXPECT_EQ(sampler.Sample({1.0f, 3.0f, 3.0f, 2.0f}, {})->id, 1);
  EXPECT_EQ(sampler.Sample({-kInfinity, -5.0f}, {})->id, 1);
}

TEST(SamplerTest, LogprobsAreOfTheModelsOwnDistribution) {
  SamplingParams params;
  params.num_top_logprobs = 3;
  params.repetition_penalty = 100.0f;  // makes id 2 lose; its logprob stays what the model says
  params.temperature = 0.0f;
  std::vector<float> logits = FourTokens();
  for (float& logit : logits) logit += 5.0f;  // no normalised input is relied on
  Sampler sampler(params);
  const auto token = sampler.Sample(logits, {2});
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->id, 0);
  EXPECT_NEAR(token->logprob, std::log(0.3), 1e-6);
  ASSERT_EQ(token->top.size(), 3u);
  EXPECT_EQ(token->top[0].id, 2);
  EXPECT_NEAR(token->top[0].logprob, std::log(0.4), 1e-6);
  EXPECT_EQ(token->top[1].id, 0);
  EXPECT_EQ(token->top[2].id, 3);
  EXPECT_NEAR(token->top[2].logprob, std::log(0.2), 1e-6);
}

TEST(SamplerTest, TopLogprobsAreNoMoreThanTheVocabulary) {
  SamplingParams params;
  params.num_top_logprobs = 20;
  EXPECT_EQ(Sampler(params).Sample(FourTokens(), {})->top.size(), 4u);
}

TEST(SamplerTest, TemperatureOneDrawsTheDistribution) {
  ExpectShares(Shares({.temperature = 1.0f, .seed = 1}, FourTokens()),
               {{2, 0.4}, {0, 0.3}, {3, 0.2}, {1, 0.1}});
}

TEST(SamplerTest, TemperatureSharpensByItsPower) {
  // p^2 / sum: 0.16, 0.09, 0.04, 0.01 over 0.30.
  ExpectShares(Shares({.temperature = 0.5f, .seed = 2}, FourTokens()),
               {{2, 16.0 / 30}, {0, 9.0 / 30}, {3, 4.0 / 30}, {1, 1.0 / 30}});
}

TEST(SamplerTest, TinyTemperatureIsGreedy) {
  ExpectShares(Shares({.temperature = 1e-45f, .seed = 3}, FourTokens()), {{2, 1.0}});
}

TEST(SamplerTest, TopKKeepsTheBest) {
  ExpectShares(Shares({.temperature = 1.0f, .top_k = 2, .seed = 4}, FourTokens()),
               {{2, 4.0 / 7}, {0, 3.0 / 7}});
  ExpectShares(Shares({.temperature = 1.0f, .top_k = 1, .seed = 4}, FourTokens()), {{2, 1.0}});
  ExpectShares(Shares({.temperature = 1.0f, .top_k = 9, .seed = 4}, FourTokens()),
               {{2, 0.4}, {0, 0.3}, {3, 0.2}, {1, 0.1}});
}

TEST(SamplerTest, TopKOrdersEqualLogitsById) {
  ExpectShares(Shares({.temperature = 1.0f, .top_k = 2, .seed = 5}, {1.0f, 1.0f, 1.0f, 1.0f}),
               {{0, 0.5}, {1, 0.5}});
}

TEST(SamplerTest, TopPKeepsTheSmallestSetThatReachesIt) {
  ExpectShares(Shares({.temperature = 1.0f, .top_p = 0.65f, .seed = 6}, FourTokens()),
               {{2, 4.0 / 7}, {0, 3.0 / 7}});
  ExpectShares(Shares({.temperature = 1.0f, .top_p = 0.75f, .seed = 6}, FourTokens()),
               {{2, 4.0 / 9}, {0, 3.0 / 9}, {3, 2.0 / 9}});
  ExpectShares(Shares({.temperature = 1.0f, .top_p = 1e-6f, .seed = 6}, FourTokens()), {{2, 1.0}});
}

TEST(SamplerTest, TopPCountsWhatTopKLeft) {
  // After top_k 2 the best has 4/7 = 0.571: enough for 0.5, not for 0.6.
  ExpectShares(Shares({.temperature = 1.0f, .top_k = 2, .top_p = 0.5f, .seed = 7}, FourTokens()), {{2, 1.0}});
  ExpectShares(Shares({.temperature = 1.0f, .top_k = 2, .top_p = 0.6f, .seed = 7}, FourTokens()),
               {{2, 4.0 / 7}, {0, 3.0 / 7}});
}

TEST(SamplerTest, MinPIsRelativeToTheBest) {
  // Limit 0.6 x 0.4 = 0.24.
  ExpectShares(Shares({.temperature = 1.0f, .min_p = 0.6f, .seed = 8}, FourTokens()),
               {{2, 4.0 / 7}, {0, 3.0 / 7}});
  ExpectShares(Shares({.temperature = 1.0f, .min_p = 0.999f, .seed = 8}, FourTokens()), {{2, 1.0}});
}

TEST(SamplerTest, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogitsOnce) {
  // 2 / 2 = 1 and -1 x 2 = -2; id 0 was seen twice, ids outside the vocabulary do not matter.
  const std::vector<float> logits = {2.0f, -1.0f, 1.0f};
  const double total = std::exp(1.0) + std::exp(-2.0) + std::exp(1.0);
  ExpectShares(
      Shares({.temperature = 1.0f, .repetition_penalty = 2.0f, .seed = 9}, logits, {0, 1, 0, -1, 3, 1 << 30}),
      {{0, std::exp(1.0) / total}, {1, std::exp(-2.0) / total}, {2, std::exp(1.0) / total}});
}

TEST(SamplerTest, CutsOverALargeVocabularyAgreeWithSortingIt) {
  // Enough near-equal tokens that the set reaches past the first sorted block.
  std::vector<float> logits(5000);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = -0.0005f * static_cast<float>((i * 2741) % 5000);
  std::vector<float> sorted = logits;
  std::sort(sorted.rbegin(), sorted.rend());
  double total = 0.0;
  for (const float logit : sorted) total += std::exp(double{logit});
  double sum = 0.0;
  std::size_t kept = 0;
  while (sum < 0.7 * total) sum += std::exp(double{sorted[kept++]});
  ASSERT_GT(kept, 512u);

  Sampler sampler({.temperature = 1.0f, .top_p = 0.7f, .seed = 10});
  float worst = 0.0f;
  for (int i = 0; i < 5000; ++i) {
    const auto token = sampler.Sample(logits, {});
    worst = std::min(worst, logits[static_cast<std::size_t>(token->id)]);
  }
  EXPECT_GE(worst, sorted[kept]);               // nothing beyond the set
  EXPECT_LT(worst, sorted[kept - kept / 100]);  // and the set is used to its end
}

TEST(SamplerTest, ImpossibleTokensAreNeverDrawn) {
  const std::vector<float> logits = {-kInfinity, 0.0f, -kInfinity, 0.0f};
  ExpectShares(Shares({.temperature = 1.0f, .seed = 11}, logits), {{1, 0.5}, {3, 0.5}});
  ExpectShares(Shares({.temperature = 1.0f, .top_p = 0.999f, .seed = 11}, logits), {{1, 0.5}, {3, 0.5}});
}

TEST(SamplerTest, EqualSeedsGiveEqualTokensAndOthersDiffer) {
  const auto draw = [](std::uint64_t seed) {
    Sampler sampler({.temperature = 1.0f, .seed = seed});
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 64; ++i) ids.push_back(sampler.Sample(FourTokens(), {})->id);
    return ids;
  };
  EXPECT_EQ(draw(42), draw(42));
  EXPECT_NE(draw(42), draw(43));
}

TEST(SamplerTest, LogitsThatAreNoDistributionAreInternalErrors) {
  Sampler sampler({});
  EXPECT_EQ(sampler.Sample({1.0f, kNan}, {}).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(sampler.Sample({1.0f, kInfinity}, {}).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(sampler.Sample({-kInfinity, -kInfinity}, {}).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(sampler.Sample({}, {}).status().code(), absl::StatusCode::kInternal);
}

// The k best of the logits and their sums, as a device finds them.
struct Top {
  Top(const std::vector<float>& all, std::int64_t k, float temperature) {
    std::vector<std::int32_t> order(all.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return all[static_cast<std::size_t>(a)] > all[static_cast<std::size_t>(b)];
    });
    for (std::int64_t i = 0; i < k; ++i) {
      ids.push_back(order[static_cast<std::size_t>(i)]);
      logits.push_back(all[static_cast<std::size_t>(ids.back())]);
    }
    row = {.logits = logits, .ids = ids, .vocabulary = static_cast<std::int64_t>(all.size())};
    for (const float logit : all) {
      row.sum += std::exp(logit - logits[0]);
      row.tempered_sum += std::exp((logit - logits[0]) / (temperature > 0.0f ? temperature : 1.0f));
    }
  }
  std::vector<float> logits;
  std::vector<std::int32_t> ids;
  TopOfRow row;
};

struct TopCase {
  const char* name;
  SamplingParams params;
  bool enough;  // the 40 best of 1000
};

TEST(SampleTopTest, AgreesWithTheWholeRowWhereItAnswers) {
  std::mt19937 random(3);
  std::normal_distribution<float> peaked(0.0f, 6.0f);
  const TopCase cases[] = {
      {"greedy", {}, true},
      {"greedy with penalty", {.repetition_penalty = 1.3f, .num_top_logprobs = 5}, true},
      {"greedy with a penalty that lifts", {.repetition_penalty = 0.5f}, false},
      {"plain", {.temperature = 0.8f}, false},
      {"top_k", {.temperature = 0.8f, .top_k = 20, .num_top_logprobs = 20}, true},
      {"top_k of more", {.temperature = 0.8f, .top_k = 41}, false},
      {"top_k and penalty", {.temperature = 1.5f, .top_k = 5, .repetition_penalty = 1.2f}, true},
      {"top_k, top_p and min_p", {.temperature = 1.1f, .top_k = 30, .top_p = 0.8f, .min_p = 0.01f}, true},
      {"top_p", {.temperature = 0.7f, .top_p = 0.9f}, true},
      {"top_p and penalty", {.temperature = 0.7f, .top_p = 0.9f, .repetition_penalty = 1.2f}, false},
      {"min_p", {.temperature = 0.7f, .min_p = 0.05f}, true},
      {"min_p of next to nothing", {.temperature = 50.0f, .min_p = 0.001f}, false},
      {"top_p of all", {.temperature = 9.0f, .top_p = 0.999f}, false},
  };
  for (const TopCase& c : cases) {
    Sampler of_whole(c.params);
    Sampler of_top(c.params);
    for (int i = 0; i < 200; ++i) {
      std::vector<float> logits(1000);
      for (float& logit : logits) logit = std::round(peaked(random) * 4.0f) / 4.0f;  // with equal ones
      const Top top(logits, 40, c.params.temperature);
      const std::vector<std::int32_t> seen = {top.ids[0], top.ids[3], top.ids[0], 17, 2000, -1};
      const auto token = of_top.SampleTop(top.row, seen);
      ASSERT_TRUE(token.ok()) << c.name << ": " << token.status();
      ASSERT_EQ(token->has_value(), c.enough) << c.name << " row " << i;
      if (!c.enough) continue;
      const auto whole = of_whole.Sample(logits, seen);
      ASSERT_EQ((*token)->id, whole->id) << c.name << " row " << i;
      EXPECT_NEAR((*token)->logprob, whole->logprob, 1e-5);
      ASSERT_EQ((*token)->top.size(), whole->top.size());
      for (std::size_t j = 0; j < whole->top.size(); ++j) {
        EXPECT_EQ((*token)->top[j].id, whole->top[j].id);
        EXPECT_NEAR((*token)->top[j].logprob, whole->top[j].logprob, 1e-5);
      }
    }
  }
}

TEST(SampleTopTest, ARefusalDrawsNoNumber) {
  const SamplingParams params{.temperature = 1.0f, .top_p = 0.95f};
  const std::vector<float> flat(1000, 0.5f);
  std::vector<float> peaked = flat;
  peaked[7] = 20.0f;
  peaked[8] = 19.9f;
  Sampler refused(params);
  Sampler other(params);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(refused.SampleTop(Top(flat, 40, 1.0f).row, {})->has_value());
    EXPECT_EQ(refused.Sample(flat, {})->id, other.Sample(flat, {})->id);
    EXPECT_EQ((*refused.SampleTop(Top(peaked, 40, 1.0f).row, {}))->id, other.Sample(peaked, {})->id);
  }
}

TEST(SampleTopTest, WhatIsNoDistributionIsAnInternalError) {
  Top top({1.0f, 2.0f}, 2, 1.0f);
  top.row.sum = kNan;
  EXPECT_EQ(Sampler({}).SampleTop(top.row, {}).status().code(), absl::StatusCode::kInternal);
}

TEST(SamplingParamsTest, ValidateNamesTheField) {
  EXPECT_TRUE(SamplingParams().Validate().ok());
  const auto message = [](const SamplingParams& params) {
    const absl::Status status = params.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  for (const float bad : {-0.1f, 101.0f, kNan, kInfinity}) {
    EXPECT_THAT(message({.temperature = bad}), HasSubstr("temperature"));
  }
  EXPECT_THAT(message({.top_k = -1}), HasSubstr("top_k"));
  for (const float bad : {0.0f, -1.0f, 1.1f, kNan}) EXPECT_THAT(message({.top_p = bad}), HasSubstr("top_p"));
  for (const float bad : {1.0f, -0.1f, kNan}) EXPECT_THAT(message({.min_p = bad}), HasSubstr("min_p"));
  for (const float bad : {0.0f, -1.0f, 1e9f, kNan}) {
    EXPECT_THAT(message({.repetition_penalty = bad}), HasSubstr("repetition_penalty"));
  }
  EXPECT_THAT(message({.num_top_logprobs = -1}), HasSubstr("num_top_logprobs"));
  EXPECT_THAT(message({.num_top_logprobs = 21}), HasSubstr("num_top_logprobs"));
}

}  // namespace
}  // namespace scd
