#include "client/bench/distribution.h"

#include <gtest/gtest.h>

namespace scd {
namespace {

TEST(Distribution, IsZeroWhereNothingWasMeasured) {
  const Distribution d;
  EXPECT_EQ(d.count(), 0u);
  EXPECT_EQ(d.mean(), 0.0);
  EXPECT_EQ(d.Percentile(99), 0.0);
}

TEST(Distribution, LiesBetweenValuesInProportion) {
  Distribution d;
  for (const double value : {40.0, 10.0, 30.0, 20.0}) d.Add(value);
  EXPECT_DOUBLE_EQ(d.mean(), 25.0);
  EXPECT_DOUBLE_EQ(d.Percentile(0), 10.0);
  EXPECT_DOUBLE_EQ(d.Percentile(50), 25.0);
  EXPECT_DOUBLE_EQ(d.Percentile(90), 37.0);
  EXPECT_DOUBLE_EQ(d.Percentile(100), 40.0);
}

TEST(Distribution, TakesValuesAfterItWasAsked) {
  Distribution d;
  d.Add(5);
  EXPECT_DOUBLE_EQ(d.Percentile(50), 5.0);
  d.Add(1);
  EXPECT_DOUBLE_EQ(d.Percentile(0), 1.0);
  EXPECT_DOUBLE_EQ(d.Percentile(100), 5.0);
}

TEST(Distribution, HasTheRanksOfAHundredAndOneValues) {
  Distribution d;
  for (int i = 100; i >= 0; --i) d.Add(i);
  for (const double percent : {0.0, 50.0, 90.0, 99.0, 100.0})
    EXPECT_DOUBLE_EQ(d.Percentile(percent), percent);
}

}  // namespace
}  // namespace scd
