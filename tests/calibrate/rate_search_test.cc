#include "calibrate/rate_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace scd {
namespace {

using ::testing::HasSubstr;

// A pair whose curve is known: so many bytes a factor of distortion, and a KL that levels off below.
class RateSearchTest : public ::testing::Test {
 protected:
  RatePoint At(double distortion) const {
    return {.distortion = distortion,
            .bytes_per_token = std::max(100.0, 300.0 - 450.0 * std::log(distortion)),
            .kl = 0.018 + 0.12 * distortion};
  }
  std::vector<RatePoint> Known(const std::vector<double>& distortions) const {
    std::vector<RatePoint> known;
    for (const double d : distortions) known.push_back(At(d));
    return known;
  }
  absl::StatusOr<RatePoint> Find(const RateTarget& target, const std::vector<double>& known) {
    measured_ = 0;
    return FindRatePoint(target, Known(known), [&](double d) {
      ++measured_;
      EXPECT_GE(d, kLeastDistortion);
      EXPECT_LE(d, kMostDistortion);
      return At(d);
    });
  }

  int measured_ = 0;
};

TEST_F(RateSearchTest, TheFewestBytesAtAKl) {
  for (const double kl : {0.0181, 0.019, 0.0228, 0.03, 0.1}) {
    const RatePoint point = Find({.kl = kl}, {0.01, 0.02, 0.04, 0.08, 0.16}).value();
    EXPECT_LE(point.kl, kl);
    EXPECT_GE(point.kl, 0.97 * kl);
    EXPECT_LE(measured_, 8) << kl;
    EXPECT_EQ(point, At(point.distortion));
  }
}

TEST_F(RateSearchTest, TheLeastDistortionAtSoManyBytes) {
  for (const double bytes : {120.0, 500.0, 1400.0, 2180.0, 3000.0, 5000.0}) {
    const RatePoint point = Find({.bytes_per_token = bytes}, {0.01, 0.02, 0.04, 0.08, 0.16}).value();
    EXPECT_LE(point.bytes_per_token, bytes);
    EXPECT_GE(point.bytes_per_token, 0.95 * bytes);
    EXPECT_LE(measured_, 9) << bytes;
  }
}

TEST_F(RateSearchTest, AKnownPointThatIsCloseEnoughIsTaken) {
  EXPECT_EQ(Find({.kl = At(0.04).kl * 1.001}, {0.01, 0.04, 0.16})->distortion, 0.04);
  EXPECT_EQ(measured_, 0);
  EXPECT_EQ(Find({.bytes_per_token = At(0.04).bytes_per_token}, {0.01, 0.04, 0.16})->distortion, 0.04);
  EXPECT_EQ(measured_, 0);
}

TEST_F(RateSearchTest, DistortionsHaveFourDigits) {
  const double found = Find({.bytes_per_token = 2000.0}, {0.01, 0.16})->distortion;
  const double digits = found * 1e5;
  EXPECT_NEAR(digits, std::round(digits), 1e-6);
}

TEST_F(RateSearchTest, WhatCannotBeMetIsRefusedSayingHowCloseItCame) {
  const auto kl = Find({.kl = 0.01}, {0.01, 0.04});
  EXPECT_EQ(kl.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(kl.status().message(), HasSubstr("entropy.target_kl: 0.01 cannot be met"));
  EXPECT_THAT(kl.status().message(), HasSubstr("leaves KL 0.018"));
  EXPECT_LE(measured_, 3);
  const auto bytes = Find({.bytes_per_token = 50.0}, {0.01, 0.04});
  EXPECT_EQ(bytes.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(bytes.status().message(), HasSubstr("entropy.target_bytes: 50 cannot be met"));
  EXPECT_THAT(bytes.status().message(), HasSubstr("a token takes 100 bytes"));
}

TEST_F(RateSearchTest, MoreBytesThanThereAreCodesForGivesTheLeastDistortion) {
  const RatePoint point = Find({.bytes_per_token = 1e6}, {0.01, 0.04}).value();
  EXPECT_LT(point.distortion, 4 * kLeastDistortion);
}

TEST_F(RateSearchTest, NoiseInTheKlDoesNotLeadItAstray) {
  const auto noisy = [&](double d) {
    RatePoint point = At(d);
    point.kl += 0.0004 * std::sin(1e4 * d);
    return point;
  };
  std::vector<RatePoint> known;
  for (const double d : {0.01, 0.02, 0.04, 0.08, 0.16}) known.push_back(noisy(d));
  const RatePoint point = FindRatePoint({.kl = 0.024}, known, noisy).value();
  EXPECT_LE(point.kl, 0.024);
  EXPECT_NEAR(point.distortion, 0.05, 0.01);
}

TEST_F(RateSearchTest, AnErrorOfAMeasurementEndsIt) {
  EXPECT_TRUE(absl::IsCancelled(FindRatePoint({.kl = 0.02}, Known({0.01, 0.16}), [](double) {
                                  return absl::CancelledError("stopped");
                                }).status()));
  EXPECT_FALSE(FindRatePoint({.kl = 0.02}, {}, [](double) { return RatePoint(); }).ok());
}

}  // namespace
}  // namespace scd
