#include "eval/drift/drift_recursion.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

ErrorSum Relative(double error) {
  return {.error = error * error * 9, .norm = 9};
}

TEST(ErrorSumTest, IsTheRelativeFrobeniusErrorOfEverythingThatWasAdded) {
  ErrorSum sum;
  EXPECT_EQ(sum.Relative(), 0);
  const std::vector<float> actual = {1, 2, 5};
  const std::vector<float> native = {1, 0, 2};
  sum.Add(actual, native);  // (4 + 9) over (1 + 4)
  EXPECT_DOUBLE_EQ(sum.Relative(), std::sqrt(13.0 / 5.0));
  sum += ErrorSum{.error = 3, .norm = 20};
  EXPECT_DOUBLE_EQ(sum.Relative(), std::sqrt(16.0 / 25.0));
}

TEST(DriftSumsTest, AddEveryPart) {
  DriftSums a(2);
  EXPECT_EQ(a.k.size(), 2u);
  EXPECT_EQ(a.hidden.size(), 3u);
  DriftSums b(2);
  b.k[0] = {1, 2};
  b.v[1] = {3, 4};
  b.hidden[2] = {5, 6};
  b.from_input[1] = {7, 8};
  b.from_kv[0] = {9, 10};
  a += b;
  a += b;
  EXPECT_EQ(a.k[0].error, 2);
  EXPECT_EQ(a.v[1].norm, 8);
  EXPECT_EQ(a.hidden[2].error, 10);
  EXPECT_EQ(a.from_input[1].norm, 16);
  EXPECT_EQ(a.from_kv[0].error, 18);
  EXPECT_EQ(a.k[1].norm, 0);
}

TEST(DriftRecursionTest, EstimatesAreRatiosAndTheRecursionIsDoneByHand) {
  DriftSums sums(3);
  sums.k = {Relative(0.3), Relative(0.06), Relative(0)};
  sums.v = {Relative(0.4), Relative(0.08), Relative(0)};
  sums.hidden = {Relative(0), Relative(0.1), Relative(0.2), Relative(0.3)};
  sums.from_input = {Relative(0), Relative(0.15), Relative(0.1)};
  sums.from_kv = {Relative(0.1), Relative(0.02), Relative(0)};
  const DriftEstimates estimates = EstimateDrift(sums);
  EXPECT_THAT(estimates.eps,
              ElementsAre(DoubleNear(0.5, 1e-12), DoubleNear(0.1, 1e-12), DoubleNear(0, 1e-12)));
  ASSERT_EQ(estimates.alpha.size(), 3u);
  EXPECT_TRUE(std::isnan(estimates.alpha[0]));  // nothing enters the first layer
  EXPECT_NEAR(estimates.alpha[1], 1.5, 1e-12);
  EXPECT_NEAR(estimates.alpha[2], 0.5, 1e-12);
  EXPECT_NEAR(estimates.beta[0], 0.2, 1e-12);
  EXPECT_NEAR(estimates.beta[1], 0.2, 1e-12);
  EXPECT_TRUE(std::isnan(estimates.beta[2]));  // an exact layer
  // 0.2 x 0.5; 1.5 x 0.1 + 0.2 x 0.1; 0.5 x 0.17.
  EXPECT_THAT(PredictDrift(estimates), ElementsAre(DoubleNear(0, 1e-12), DoubleNear(0.1, 1e-12),
                                                   DoubleNear(0.17, 1e-12), DoubleNear(0.085, 1e-12)));
}

TEST(DriftRecursionTest, ListsWhereMoreWasMeasuredThanPredicted) {
  EXPECT_THAT(ViolatedLayers({0, 0.1, 0.2, 0.3}, {0, 0.1, 0.17, 0.4}), ElementsAre(2));
  EXPECT_THAT(ViolatedLayers({0, 0.5}, {0, 0.4}), ElementsAre(1));
  EXPECT_THAT(ViolatedLayers({0, 1e-7}, {0, 0}), ElementsAre());
}

}  // namespace
}  // namespace scd
