#include "common/config/entropy_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace scd {
namespace {

using ::testing::HasSubstr;

constexpr auto kEscape = static_cast<std::size_t>(kEscapeSymbol);
constexpr auto kSymbols = static_cast<std::size_t>(kEntropySymbols);

std::int32_t Sum(const std::vector<std::int32_t>& frequencies) {
  return std::accumulate(frequencies.begin(), frequencies.end(), 0);
}

double Cost(const std::vector<std::int64_t>& counts, const std::vector<std::int32_t>& frequencies) {
  double bits = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] > 0) bits -= static_cast<double>(counts[s]) * std::log2(frequencies[s] / 4096.0);
  }
  return bits;
}

class CheckEntropyTablesTest : public ::testing::Test {
 protected:
  // Three columns; the last is not sent.
  CheckEntropyTablesTest() : steps_{0.5f, 2.0f, 0.0f}, frequencies_(3 * kSymbols, 0) {
    for (std::size_t s = 0; s < 2 * kSymbols; ++s) frequencies_[s] = 32;
  }

  absl::Status Check() const { return CheckEntropyTables({steps_, frequencies_}); }
  void ExpectBad(const std::string& what) const {
    EXPECT_EQ(Check().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Check().message(), HasSubstr(what));
  }

  std::vector<float> steps_;
  std::vector<std::int32_t> frequencies_;
};

TEST_F(CheckEntropyTablesTest, TakesGoodOnes) {
  EXPECT_TRUE(Check().ok()) << Check();
  steps_ = {kSmallestEntropyStep, kLargestEntropyStep, 0.0f};
  EXPECT_TRUE(Check().ok()) << Check();
}

TEST_F(CheckEntropyTablesTest, RefusesSteps) {
  for (const float step :
       {-1.0f, kSmallestEntropyStep / 2, kLargestEntropyStep * 2, std::numeric_limits<float>::denorm_min(),
        std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    steps_[1] = step;
    ExpectBad("column 1: a step of ");
  }
}

TEST_F(CheckEntropyTablesTest, RefusesFrequencies) {
  const std::vector<std::int32_t> good = frequencies_;
  frequencies_[3] = -1;
  ExpectBad("column 0: a frequency of -1");
  frequencies_[3] = 4097;
  ExpectBad("column 0: a frequency of 4097");
  frequencies_[3] = std::numeric_limits<std::int32_t>::max();
  ExpectBad("column 0: a frequency of 2147483647");
  frequencies_[3] = 31;
  ExpectBad("column 0: frequencies sum to 4095, not 4096");
  frequencies_ = good;
  frequencies_[kSymbols + kEscape] = 0;
  frequencies_[kSymbols] = 64;
  ExpectBad("column 1: the escape has no frequency");
  frequencies_ = good;
  frequencies_[2 * kSymbols + 5] = 1;
  ExpectBad("column 2: frequencies sum to 1, not 0");
}

TEST_F(CheckEntropyTablesTest, RefusesSizes) {
  frequencies_.pop_back();
  ExpectBad("383 frequencies");
  steps_.clear();
  frequencies_.clear();
  ExpectBad("0 columns");
  steps_.assign(static_cast<std::size_t>(kLargestEntropyRank) + 1, 0.0f);
  frequencies_.assign(steps_.size() * kSymbols, 0);
  ExpectBad("65537 columns");
}

TEST(FitFrequenciesTest, WithoutCountsEverythingIsEscaped) {
  const std::vector<std::int32_t> fitted = FitFrequencies(std::vector<std::int64_t>(kSymbols, 0));
  EXPECT_EQ(fitted[kEscape], 4096);
  EXPECT_EQ(Sum(fitted), 4096);
}

TEST(FitFrequenciesTest, WhatNeverOccurredHasNoneAndWhatDidHasOne) {
  std::vector<std::int64_t> counts(kSymbols, 0);
  counts[63] = 1'000'000'000'000;
  counts[64] = 1;
  const std::vector<std::int32_t> fitted = FitFrequencies(counts);
  EXPECT_EQ(fitted[63], 4094);
  EXPECT_EQ(fitted[64], 1);
  EXPECT_EQ(fitted[kEscape], 1);
  EXPECT_EQ(Sum(fitted), 4096);
}

TEST(FitFrequenciesTest, SharesAreKept) {
  std::vector<std::int64_t> counts(kSymbols, 0);
  counts[60] = 2000;
  counts[63] = 1000;
  counts[kEscape] = 1096;
  const std::vector<std::int32_t> fitted = FitFrequencies(counts);
  EXPECT_EQ(fitted[60], 2000);
  EXPECT_EQ(fitted[63], 1000);
  EXPECT_EQ(fitted[kEscape], 1096);
}

TEST(FitFrequenciesTest, NoOtherFrequenciesCostLess) {
  // Three symbols: every division of the 4096 slots.
  std::vector<double> log2(4097);
  for (int f = 1; f <= 4096; ++f) log2[static_cast<std::size_t>(f)] = std::log2(f / 4096.0);
  for (const auto& [a, b, escapes] : {std::array{700, 31, 5}, {9, 8, 0}, {100'000, 1, 3}, {1, 1, 1}}) {
    std::vector<std::int64_t> counts(kSymbols, 0);
    counts[61] = a;
    counts[63] = b;
    counts[kEscape] = escapes;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t f = 1; f < 4095; ++f) {
      for (std::size_t g = 1; f + g < 4096; ++g) {
        least = std::min(least, -(a * log2[f] + b * log2[g] + escapes * log2[4096 - f - g]));
      }
    }
    const std::vector<std::int32_t> fitted = FitFrequencies(counts);
    EXPECT_EQ(Sum(fitted), 4096);
    EXPECT_NEAR(Cost(counts, fitted), least, 1e-6 * least);
  }
}

TEST(FitFrequenciesTest, MovingASlotNeverHelps) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    // From a few symbols to all, with counts of very different sizes, so that many are forced up to 1.
    std::vector<std::int64_t> counts(kSymbols, 0);
    const double present = std::uniform_real_distribution<double>(0.02, 1.0)(random);
    for (std::int64_t& count : counts) {
      if (std::bernoulli_distribution(present)(random)) {
        count = static_cast<std::int64_t>(std::exp(std::uniform_real_distribution<double>(0, 20)(random)));
      }
    }
    std::vector<std::int32_t> fitted = FitFrequencies(counts);
    ASSERT_EQ(Sum(fitted), 4096);
    const double cost = Cost(counts, fitted);
    for (std::size_t s = 0; s < kSymbols; ++s) {
      ASSERT_EQ(fitted[s] >= 1, counts[s] > 0 || s == kEscape);
    }
    for (std::size_t from = 0; from < kSymbols; ++from) {
      if (fitted[from] < 2) continue;
      for (std::size_t to = 0; to < kSymbols; ++to) {
        if (fitted[to] == 0 || to == from) continue;
        --fitted[from];
        ++fitted[to];
        ASSERT_GE(Cost(counts, fitted), cost * (1 - 1e-12)) << from << " to " << to;
        ++fitted[from];
        --fitted[to];
      }
    }
  }
}

}  // namespace
}  // namespace scd
