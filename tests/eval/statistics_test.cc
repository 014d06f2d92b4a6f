// Against numbers worked out by hand.
#include "eval/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace scd {
namespace {

TEST(MedianTest, OfOddAndEvenCounts) {
  EXPECT_EQ(Median({}), std::nullopt);
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({9, 1, 4}), 4);
  EXPECT_EQ(Median({9, 1, 4, 2}), 3);
  EXPECT_TRUE(std::isinf(*Median({1, std::numeric_limits<double>::infinity()})));
}

TEST(MeanTest, OfNothingIsAbsent) {
  EXPECT_EQ(Mean({}), std::nullopt);
  EXPECT_DOUBLE_EQ(*Mean({1.0, 2.0, 6.0}), 3.0);
}

TEST(WindowStatisticsTest, PerplexityIsOverTokensAndDivergenceOverWindows) {
  WindowStatistics statistics;
  EXPECT_EQ(statistics.ppl(), std::nullopt);
  EXPECT_EQ(statistics.kl(), std::nullopt);
  // Two tokens, three positions: nll 3, KL (0.1 + 0.2 + 0.6) / 3 = 0.3, TV (0.2 + 0.4 + 0.6) / 3 = 0.4.
  const std::vector<PositionFigures> two = {{.logprob = -1, .kl = 0.1, .tv = 0.2, .native_logprob = -0.5},
                                            {.logprob = -2, .kl = 0.2, .tv = 0.4, .native_logprob = -1.5},
                                            {.logprob = 0, .kl = 0.6, .tv = 0.6, .native_logprob = 0}};
  // One token, two positions: nll 6, KL 0.5, TV 0.1.
  const std::vector<PositionFigures> one = {{.logprob = -6, .kl = 1.0, .tv = 0.2, .native_logprob = -1},
                                            {.logprob = 0, .kl = 0.0, .tv = 0.0, .native_logprob = 0}};
  statistics.Add(two);
  statistics.Add(one);
  EXPECT_EQ(statistics.num_windows(), 2);
  EXPECT_EQ(statistics.num_tokens(), 3);
  EXPECT_DOUBLE_EQ(*statistics.ppl(), std::exp(9.0 / 3));  // over the three tokens together
  EXPECT_DOUBLE_EQ(*statistics.native_ppl(), std::exp(3.0 / 3));
  EXPECT_DOUBLE_EQ(*statistics.kl(), (0.3 + 0.5) / 2);  // not over the five positions, which gives 0.38
  EXPECT_DOUBLE_EQ(*statistics.tv(), (0.4 + 0.1) / 2);
}

TEST(WindowStatisticsTest, AnEmptyContinuationHasDivergenceAlone) {
  WindowStatistics statistics;
  statistics.Add(std::vector<PositionFigures>{{.logprob = 0, .kl = 0.7, .tv = 0.3, .native_logprob = 0}});
  EXPECT_EQ(statistics.ppl(), std::nullopt);
  EXPECT_DOUBLE_EQ(*statistics.kl(), 0.7);
}

TEST(ByteStatisticsTest, AreOverAllPromptsTogether) {
  ByteStatistics bytes;
  EXPECT_EQ(bytes.bytes_per_token(), std::nullopt);
  TransferFigures a, b;
  a.prompt_tokens = 100;
  a.transferred_tokens = 80;
  a.received_bytes = 900;
  a.code_bytes = 800;
  b.prompt_tokens = 300;
  b.transferred_tokens = 120;
  b.received_bytes = 1500;
  b.code_bytes = 1400;
  bytes.Add(a);
  bytes.Add(b);
  EXPECT_DOUBLE_EQ(*bytes.bytes_per_token(), 6);                    // 2400 / 400
  EXPECT_DOUBLE_EQ(*bytes.code_bytes_per_transferred_token(), 11);  // 2200 / 200
}

TEST(FirstDifferenceTest, IsTheFirstTokenThatIsNotTheSame) {
  const std::vector<std::int32_t> answer = {5, 6, 7};
  EXPECT_EQ(FirstDifference(answer, answer), std::nullopt);
  EXPECT_EQ(FirstDifference(answer, std::vector<std::int32_t>{5, 9, 7}), 1);
  EXPECT_EQ(FirstDifference(answer, std::vector<std::int32_t>{4, 6, 7}), 0);
  EXPECT_EQ(FirstDifference(answer, std::vector<std::int32_t>{5, 6}), 2);
  EXPECT_EQ(FirstDifference(std::vector<std::int32_t>{}, answer), 0);
}

TEST(FirstDifferenceTest, TheMedianCountsAnswersThatNeverDiffer) {
  using Differences = std::vector<std::optional<std::int64_t>>;
  EXPECT_EQ(MedianFirstDifference(Differences{}), std::nullopt);
  EXPECT_EQ(MedianFirstDifference(Differences{2, 4, std::nullopt}), 4);
  EXPECT_EQ(MedianFirstDifference(Differences{2, std::nullopt, std::nullopt}), std::nullopt);
  EXPECT_EQ(MedianFirstDifference(Differences{2, 5, 6, std::nullopt}), 5.5);
  EXPECT_EQ(MedianFirstDifference(Differences{2, 5, std::nullopt, std::nullopt}), std::nullopt);
}

}  // namespace
}  // namespace scd
