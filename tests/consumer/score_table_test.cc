#include "consumer/score_table.h"

#include <cmath>
#include <vector>

#include "consumer/score_math.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

constexpr std::int64_t kVocabulary = 3;

ConstTensorView View(const std::vector<float>& logits) {
  return {logits.data(), DType::kF32,
          Shape{static_cast<std::int64_t>(logits.size()) / kVocabulary, kVocabulary}};
}

TEST(ScoreTableTest, EmptyContinuationHasOnePosition) {
  ScoreTable table({}, false);
  EXPECT_FALSE(table.CheckComplete().ok());
  ASSERT_TRUE(table.AddMode(0, View({1, 2, 3})).ok());
  ASSERT_TRUE(table.CheckComplete().ok());
  ASSERT_EQ(table.results().size(), 1u);
  EXPECT_EQ(table.results()[0].logprob, 0.0);
}

TEST(ScoreTableTest, LogprobIsOfTheNextToken) {
  ScoreTable table({2, 0}, false);
  ASSERT_TRUE(table.AddMode(0, View({0, 0, 0})).ok());
  ASSERT_TRUE(table.AddMode(1, View({std::log(2.0f), 0, 0, 0, 0, 0})).ok());
  ASSERT_TRUE(table.CheckComplete().ok());
  EXPECT_NEAR(table.results()[0].logprob, -std::log(3.0), 1e-7);
  EXPECT_NEAR(table.results()[1].logprob, std::log(0.5), 1e-7);
  EXPECT_EQ(table.results()[2].logprob, 0.0);
}

TEST(ScoreTableTest, ComparesBlocksOfOtherSizes) {
  const std::vector<float> mode = {0, 1, 2, 3, 1, 0, 0, 0, 0, -1, 4, 2};
  const std::vector<float> native = {0, 1, 2, 2, 1, 0, 1, 0, 0, -1, 4, 3};
  ScoreTable table({0, 1, 2}, true);
  ASSERT_TRUE(table.AddMode(0, View({mode.begin(), mode.begin() + 9})).ok());
  ASSERT_TRUE(table.AddMode(3, View({mode.begin() + 9, mode.end()})).ok());
  EXPECT_FALSE(table.CheckComplete().ok());
  ASSERT_TRUE(table.AddNative(0, View({native.begin(), native.begin() + 3})).ok());
  ASSERT_TRUE(table.AddNative(1, View({native.begin() + 3, native.end()})).ok());
  ASSERT_TRUE(table.CheckComplete().ok());
  for (std::size_t row = 0; row < 4; ++row) {
    const std::vector<float> p(native.begin() + static_cast<long>(3 * row),
                               native.begin() + static_cast<long>(3 * row + 3));
    const std::vector<float> q(mode.begin() + static_cast<long>(3 * row),
                               mode.begin() + static_cast<long>(3 * row + 3));
    const Divergence expected = Compare(p, *LogSumExp(p), q, *LogSumExp(q));
    EXPECT_EQ(table.results()[row].kl, expected.kl);
    EXPECT_EQ(table.results()[row].tv, expected.tv);
    if (row < 3) {
      EXPECT_EQ(table.results()[row].native_logprob, p[row] - *LogSumExp(p));
    }
  }
  EXPECT_EQ(table.results()[0].kl, 0.0);
  EXPECT_GT(table.results()[1].kl, 0.0);
}

TEST(ScoreTableTest, RowsThatDoNotFitAreRefused) {
  ScoreTable table({0}, true);
  EXPECT_FALSE(table.AddMode(1, View({0, 0, 0, 0, 0, 0})).ok());
  EXPECT_FALSE(table.AddMode(-1, View({0, 0, 0})).ok());
  EXPECT_FALSE(table.AddNative(0, View({0, 0, 0})).ok()) << "nothing to compare with";
  EXPECT_FALSE(table.AddMode(0, View({0, std::nanf(""), 0})).ok());
}

}  // namespace
}  // namespace scd
