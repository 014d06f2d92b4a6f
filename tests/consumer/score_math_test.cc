#include "consumer/score_math.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace scd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Divergence CompareLogits(const std::vector<float>& p, const std::vector<float>& q) {
  return Compare(p, *LogSumExp(p), q, *LogSumExp(q));
}

TEST(ScoreMathTest, LogSumExpOfKnownValues) {
  EXPECT_NEAR(*LogSumExp(std::vector<float>{0, 0, 0, 0}), std::log(4.0), 1e-15);
  EXPECT_NEAR(*LogSumExp(std::vector<float>{std::log(1.0f), std::log(3.0f)}), std::log(4.0), 1e-7);
  // Far from zero, where exp would overflow or vanish.
  EXPECT_NEAR(*LogSumExp(std::vector<float>{1000, 1000}), 1000 + std::log(2.0), 1e-12);
  EXPECT_NEAR(*LogSumExp(std::vector<float>{-1000, -1000}), -1000 + std::log(2.0), 1e-12);
  EXPECT_EQ(*LogSumExp(std::vector<float>{3, -kInfinity}), 3.0);
}

TEST(ScoreMathTest, LogitsThatAreNoDistributionAreRefused) {
  EXPECT_FALSE(LogSumExp(std::vector<float>{0, std::nanf("")}).ok());
  EXPECT_FALSE(LogSumExp(std::vector<float>{0, kInfinity}).ok());
  EXPECT_FALSE(LogSumExp(std::vector<float>{-kInfinity, -kInfinity}).ok());
  EXPECT_FALSE(LogSumExp(std::vector<float>{}).ok());
}

TEST(ScoreMathTest, DivergenceOfKnownDistributions) {
  const auto logs = [](double a, double b) {
    return std::vector<float>{static_cast<float>(std::log(a)), static_cast<float>(std::log(b))};
  };
  const Divergence d = CompareLogits(logs(0.75, 0.25), logs(0.5, 0.5));
  EXPECT_NEAR(d.kl, 0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-7);
  EXPECT_NEAR(d.tv, 0.25, 1e-7);
  // KL is not symmetric: the direction matters.
  EXPECT_NEAR(CompareLogits(logs(0.5, 0.5), logs(0.75, 0.25)).kl,
              0.5 * std::log(2.0 / 3) + 0.5 * std::log(2.0), 1e-7);
}

TEST(ScoreMathTest, EqualDistributionsAreExactlyZeroApart) {
  const std::vector<float> logits = {0.1f, -2.5f, 7.0f, 3.25f};
  const Divergence d = CompareLogits(logits, logits);
  EXPECT_EQ(d.kl, 0.0);
  EXPECT_EQ(d.tv, 0.0);
  // A shift of all logits is the same distribution.
  EXPECT_NEAR(CompareLogits(logits, {8.1f, 5.5f, 15.0f, 11.25f}).kl, 0.0, 1e-12);
}

TEST(ScoreMathTest, RuledOutTokens) {
  // What p rules out adds nothing; what q rules out and p does not is infinitely far.
  EXPECT_TRUE(std::isfinite(CompareLogits({0, -kInfinity}, {0, 0}).kl));
  EXPECT_EQ(CompareLogits({0, -kInfinity}, {0, -kInfinity}).kl, 0.0);
  EXPECT_EQ(CompareLogits({0, 0}, {0, -kInfinity}).kl, static_cast<double>(kInfinity));
  EXPECT_NEAR(CompareLogits({0, -kInfinity}, {-kInfinity, 0}).tv, 1.0, 1e-15);
}

}  // namespace
}  // namespace scd
