#include "calibrate/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace scd {
namespace {

std::vector<float> RandomLogits(std::size_t n, std::uint32_t seed, float offset) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(offset, 3.0f);
  std::vector<float> out(n);
  for (float& x : out) x = normal(random);
  return out;
}

std::vector<double> Probabilities(const std::vector<float>& logits) {
  double sum = 0;
  std::vector<double> p;
  for (const float x : logits) p.push_back(std::exp(static_cast<double>(x) - logits[0]));
  for (const double x : p) sum += x;
  for (double& x : p) x /= sum;
  return p;
}

TEST(DivergenceTest, AgreesWithTheDefinitionInDouble) {
  const std::vector<float> p_logits = RandomLogits(5000, 1, 1000.0f);
  const std::vector<float> q_logits = RandomLogits(5000, 2, -700.0f);
  std::vector<float> p(5000), q(5000);
  LogSoftmax(p_logits, absl::MakeSpan(p));
  LogSoftmax(q_logits, absl::MakeSpan(q));
  const std::vector<double> expected_p = Probabilities(p_logits);
  const std::vector<double> expected_q = Probabilities(q_logits);
  double kl = 0;
  for (std::size_t i = 0; i < 5000; ++i) {
    EXPECT_NEAR(p[i], std::log(expected_p[i]), 2e-3);
    kl += expected_p[i] * std::log(expected_p[i] / expected_q[i]);
  }
  EXPECT_NEAR(KlDivergence(p, q), kl, 1e-3 * kl);
  EXPECT_EQ(KlDivergence(p, p), 0.0);
}

TEST(DivergenceTest, SmallDivergencesKeepTheirDigits) {
  const std::vector<float> logits = RandomLogits(49152, 3, 0.0f);
  std::vector<float> nudged = logits;
  for (std::size_t i = 0; i < nudged.size(); i += 2) nudged[i] += 0.01f;
  std::vector<float> p(logits.size()), q(logits.size());
  LogSoftmax(logits, absl::MakeSpan(p));
  LogSoftmax(nudged, absl::MakeSpan(q));
  const std::vector<double> expected_p = Probabilities(logits);
  const std::vector<double> expected_q = Probabilities(nudged);
  double kl = 0;
  for (std::size_t i = 0; i < expected_p.size(); ++i)
    kl += expected_p[i] * std::log(expected_p[i] / expected_q[i]);
  EXPECT_NEAR(KlDivergence(p, q), kl, 2e-6);
  EXPECT_GT(kl, 1e-6);
}

}  // namespace
}  // namespace scd
