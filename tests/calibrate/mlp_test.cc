#include "calibrate/mlp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace scd {
namespace {

constexpr MlpShape kShape{.in = 5, .width = 9, .out = 4};
constexpr std::int64_t kRows = 12;

std::vector<float> Normal(std::int64_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& x : out) x = normal(random);
  return out;
}

// The mean squared error, from the definition and in double.
double DirectLoss(const std::vector<double>& p, const std::vector<float>& x, const std::vector<float>& y) {
  const auto [in, width, out] = kShape;
  const double* w_in = p.data();
  const double* b_in = w_in + width * in;
  const double* w_out = b_in + width;
  const double* b_out = w_out + out * width;
  double sum = 0;
  for (std::int64_t r = 0; r < kRows; ++r) {
    std::vector<double> hidden(static_cast<std::size_t>(width));
    for (std::int64_t h = 0; h < width; ++h) {
      double t = b_in[h];
      for (std::int64_t i = 0; i < in; ++i) t += w_in[h * in + i] * x[r * in + i];
      hidden[h] = t / (1.0 + std::exp(-t));
    }
    for (std::int64_t o = 0; o < out; ++o) {
      double t = b_out[o];
      for (std::int64_t h = 0; h < width; ++h) t += w_out[o * width + h] * hidden[h];
      sum += (t - y[r * out + o]) * (t - y[r * out + o]);
    }
  }
  return sum / static_cast<double>(kRows * out);
}

TEST(MlpTest, StartsAsZeroWithABoundedFirstLayer) {
  const Mlp mlp(kShape, 1);
  const auto parts = SplitParameters(kShape, mlp.parameters().data());
  const float bound = 1.0f / std::sqrt(5.0f);
  const float* first = parts.w_in.as<float>();
  EXPECT_LE(*std::max_element(first, first + 45), bound);
  EXPECT_GE(*std::min_element(first, first + 45), -bound);
  EXPECT_NE(first[0], first[1]);
  EXPECT_TRUE(std::all_of(parts.w_out.as<float>(), mlp.parameters().data() + mlp.parameters().size(),
                          [](float v) { return v == 0.0f; }));
  EXPECT_EQ(Mlp(kShape, 1).parameters(), mlp.parameters());
  EXPECT_NE(Mlp(kShape, 2).parameters(), mlp.parameters());
}

TEST(MlpTest, LossAndGradientAgreeWithTheDefinitionAndFiniteDifferences) {
  const auto math = HostMath::Create(1).value();
  Mlp mlp(kShape, 1);
  mlp.parameters() = Normal(kShape.num_parameters(), 2);
  const std::vector<float> x = Normal(kRows * kShape.in, 3);
  const std::vector<float> y = Normal(kRows * kShape.out, 4);
  std::vector<float> gradient(mlp.parameters().size());
  MlpPass pass(kShape, kRows);
  const double loss = pass.LossAndGradient(*math, mlp, MatrixView(x.data(), kRows, kShape.in),
                                           MatrixView(y.data(), kRows, kShape.out), absl::MakeSpan(gradient))
                          .value();

  std::vector<double> p(mlp.parameters().begin(), mlp.parameters().end());
  EXPECT_NEAR(loss, DirectLoss(p, x, y), 1e-5 * loss);
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double kept = p[i];
    p[i] = kept + kStep;
    const double above = DirectLoss(p, x, y);
    p[i] = kept - kStep;
    const double below = DirectLoss(p, x, y);
    p[i] = kept;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-5 + 1e-4 * std::abs(gradient[i])) << i;
  }
}

TEST(MlpTest, APassChecksItsShapes) {
  const auto math = HostMath::Create(1).value();
  const Mlp mlp(kShape, 1);
  MlpPass pass(kShape, 2);
  const std::vector<float> x = Normal(kRows * kShape.in, 3);
  const auto status =
      pass.Loss(*math, mlp, MatrixView(x.data(), 3, kShape.in), MatrixView(x.data(), 3, kShape.out));
  EXPECT_EQ(status.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace scd
