#include "client/bench/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace scd {
namespace {

std::vector<double> Times(double rate, std::uint64_t seed, int count) {
  PoissonArrivals arrivals(rate, seed);
  std::vector<double> times;
  for (int i = 0; i < count; ++i) times.push_back(arrivals.NextSeconds());
  return times;
}

TEST(PoissonArrivals, AreTheSameWithTheSameSeed) {
  EXPECT_EQ(Times(5, 1, 100), Times(5, 1, 100));
  EXPECT_NE(Times(5, 1, 100), Times(5, 2, 100));
}

TEST(PoissonArrivals, GapsAreExponentialOfTheRate) {
  constexpr int kCount = 20000;
  constexpr double kRate = 8.0;
  for (const std::uint64_t seed : {0, 1, 2}) {
    const std::vector<double> times = Times(kRate, seed, kCount);
    double last = 0, sum = 0, squares = 0;
    int longer = 0;  // gaps over the mean: a share of 1/e
    for (const double time : times) {
      const double gap = time - last;
      ASSERT_GE(gap, 0.0);
      last = time;
      sum += gap;
      squares += gap * gap;
      longer += gap > 1 / kRate;
    }
    // Within five standard errors.
    const double mean = sum / kCount, tolerance = 5 / std::sqrt(double{kCount});
    EXPECT_NEAR(mean * kRate, 1.0, tolerance) << seed;
    EXPECT_NEAR(std::sqrt(squares / kCount - mean * mean) * kRate, 1.0, 2 * tolerance) << seed;
    EXPECT_NEAR(double{1.0 * longer} / kCount, std::exp(-1.0), tolerance) << seed;
  }
}

}  // namespace
}  // namespace scd
