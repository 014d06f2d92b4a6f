#include "calibrate/entropy_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "calibrate/host_math.h"
#include "common/wire/entropy_coder.h"

namespace scd {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

TEST(EntropyFitTest, WeightsAreSquaredLengthsOfDecoderColumnsInUnitsOfTheOutputs) {
  AffineTranslator t;
  t.in = 1;
  t.rank = 2;
  t.out = 3;
  t.decoder = {3, 1, 4, 2, 8, 0};  // rows [3 1] [4 2] [8 0]
  EXPECT_THAT(ColumnWeights(t, std::vector<double>{1, 2, 4}),
              Pointwise(DoubleNear(1e-12), std::vector<double>{9 + 4 + 4, 1 + 1 + 0}));
}

TEST(EntropyFitTest, StepsFollowTheFormulaAndColumnsUnderTheWaterAreNotSent) {
  const std::vector<double> variances = {4.0, 1.0, 0.25, 0.0, 9.0};
  const std::vector<double> weights = {1.0, 4.0, 0.1, 5.0, 0.0};
  const double d = 0.03;
  EXPECT_THAT(FitSteps(d, variances, weights),
              ElementsAre(static_cast<float>(std::sqrt(12 * d)), static_cast<float>(std::sqrt(12 * d / 4)),
                          0.0f, 0.0f, 0.0f));
  // Exactly at the water's level a column is still sent.
  EXPECT_GT(FitSteps(0.25, std::vector<double>{0.25}, std::vector<double>{1.0})[0], 0.0f);
  // Steps stay where the codec can use them.
  EXPECT_EQ(FitSteps(1e-3, std::vector<double>{1e45}, std::vector<double>{1e-44})[0], kLargestEntropyStep);
}

struct Gaussian {
  std::vector<double> deviations;
  std::vector<float> rows;
  std::int64_t count = 0;

  std::int64_t rank() const { return static_cast<std::int64_t>(deviations.size()); }
  TensorView view() { return MatrixView(rows.data(), count, rank()); }
  std::vector<double> variances() const {
    std::vector<double> out;
    for (const double d : deviations) out.push_back(d * d);
    return out;
  }
};

Gaussian MakeGaussian(std::vector<double> deviations, std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Gaussian g{.deviations = std::move(deviations), .rows = {}, .count = count};
  for (std::int64_t r = 0; r < count; ++r) {
    for (const double d : g.deviations) g.rows.push_back(static_cast<float>(d * normal(random)));
  }
  return g;
}

TEST(EntropyFitTest, EverySentColumnHasTheDistortionAndTheRestItsVariance) {
  Gaussian g = MakeGaussian({8, 4, 2, 1, 0.15, 0.05}, 20000, 1);
  const std::vector<double> weights(g.deviations.size(), 2.0);
  const double d = 0.05;
  const std::vector<float> steps = FitSteps(d, g.variances(), weights);
  EXPECT_EQ(steps[4], 0.0f);  // 2 x 0.0225 is below 0.05
  EXPECT_EQ(steps[5], 0.0f);
  const std::vector<float> before = g.rows;
  RoundToSteps(steps, g.view());
  double total = 0, bound = 0;
  for (std::size_t c = 0; c < g.deviations.size(); ++c) {
    double error = 0;
    for (std::int64_t r = 0; r < g.count; ++r) {
      const std::size_t i = static_cast<std::size_t>(r) * g.deviations.size() + c;
      error += weights[c] * (g.rows[i] - before[i]) * (g.rows[i] - before[i]) / static_cast<double>(g.count);
    }
    const double expected = std::min(d, weights[c] * g.deviations[c] * g.deviations[c]);
    EXPECT_NEAR(error, expected, 0.05 * expected) << c;
    total += error;
    bound += expected;
  }
  EXPECT_LE(total, 1.02 * bound);
}

// Bits that rows take by their own frequencies, without any of the coder's costs.
double IdealBytes(const std::vector<float>& steps, const Gaussian& g) {
  double bits = 0;
  for (std::size_t c = 0; c < steps.size(); ++c) {
    if (steps[c] == 0.0f) continue;
    std::map<long, double> counts;
    for (std::int64_t r = 0; r < g.count; ++r) {
      ++counts[std::lround(g.rows[static_cast<std::size_t>(r) * steps.size() + c] / steps[c])];
    }
    for (const auto& [value, n] : counts) bits -= n * std::log2(n / static_cast<double>(g.count));
  }
  return bits / 8;
}

TEST(EntropyFitTest, PayloadsWithTheTablesAreNearTheEntropy) {
  std::vector<double> deviations;
  for (int c = 0; c < 96; ++c) deviations.push_back(6.0 * std::pow(0.95, c));
  Gaussian fitted = MakeGaussian(deviations, 8192, 2);
  Gaussian fresh = MakeGaussian(deviations, 2048, 3);
  for (const double d : {0.01, 0.04, 0.16}) {
    const EntropyFit fit = FitTables(
        FitSteps(d, fitted.variances(), std::vector<double>(deviations.size(), 1.0)), fitted.view());
    ASSERT_TRUE(CheckEntropyTables(fit.view()).ok());
    const auto coder = EntropyCoder::Create(fit.view()).value();
    for (Gaussian* g : {&fitted, &fresh}) {
      const std::string payload = coder->Encode(g->rows.data(), g->count).value();
      const double ideal = IdealBytes(fit.steps, *g);
      EXPECT_LT(static_cast<double>(payload.size()), 1.06 * ideal) << d;
      EXPECT_GT(static_cast<double>(payload.size()), 0.97 * ideal) << d;
      // What the consumer decodes is what networks are trained on.
      std::vector<float> decoded(g->rows.size());
      ASSERT_TRUE(coder->Decode(payload, g->count, 0, g->count, decoded.data()).ok());
      std::vector<float> rounded = g->rows;
      RoundToSteps(fit.steps, MatrixView(rounded.data(), g->count, g->rank()));
      EXPECT_EQ(decoded, rounded);
    }
  }
}

TEST(EntropyFitTest, ValuesFarOutAreEscapes) {
  std::vector<float> rows = {-64.0f, 63.0f, -63.0f, 64.4f, 1e6f, 0.0f, 63.4f, -1e-3f};
  const EntropyFit fit = FitTables({1.0f}, MatrixView(rows.data(), 8, 1));
  EXPECT_NEAR(fit.frequencies[kEscapeSymbol], 4096 * 3 / 8, 1);
  EXPECT_NEAR(fit.frequencies[2 * kLargestSymbolValue], 4096 * 2 / 8, 1);
  EXPECT_NEAR(fit.frequencies[0], 4096 / 8, 1);
  EXPECT_NEAR(fit.frequencies[kLargestSymbolValue], 4096 * 2 / 8, 1);
}

TEST(EntropyFitTest, VariancesAreMeanSquares) {
  std::vector<float> rows = {1, 2, -3, 0};
  EXPECT_THAT(ColumnVariances(MatrixView(rows.data(), 2, 2)), ElementsAre(5.0, 2.0));
}

}  // namespace
}  // namespace scd
