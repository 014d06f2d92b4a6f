#include "calibrate/aligner_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace scd {
namespace {

constexpr std::int64_t kIn = 6;
constexpr std::int64_t kOut = 3;

struct Problem {
  std::vector<float> x;
  std::vector<float> y;
  std::int64_t rows = 0;
  AlignerRows view() const { return {MatrixView(x.data(), rows, kIn), MatrixView(y.data(), rows, kOut)}; }
};

// Targets that no linear map reaches: products of inputs.
Problem MakeProblem(std::int64_t rows, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Problem p;
  p.rows = rows;
  for (std::int64_t r = 0; r < rows; ++r) {
    float x[kIn];
    for (float& v : x) p.x.push_back(v = normal(random));
    for (std::int64_t o = 0; o < kOut; ++o) p.y.push_back(x[o] * x[o + 1] + 0.1f * normal(random));
  }
  return p;
}

// Targets that have nothing to do with the inputs.
Problem MakeNoise(std::int64_t rows, std::uint32_t seed) {
  Problem p = MakeProblem(rows, seed);
  std::mt19937 random(seed + 100);
  std::normal_distribution<float> normal;
  for (float& v : p.y) v = normal(random);
  return p;
}

AlignerTraining SmallTraining() {
  return {
      .mlp_width = 64, .max_epochs = 20, .batch_rows = 64, .learning_rate = 5e-3, .patience = 3, .seed = 5};
}

TEST(AlignerTrainerTest, LowersTheHeldOutLossAndIsReproducible) {
  const auto math = HostMath::Create(1).value();
  const Problem train = MakeProblem(2000, 1);
  const Problem held_out = MakeProblem(300, 2);
  std::int64_t last_step = 0;
  const auto count = [&](std::int64_t done, std::int64_t total) {
    EXPECT_EQ(done, last_step + 1);
    EXPECT_EQ(total, 20 * (2000 / 64));
    last_step = done;
  };
  const TrainedAligner first =
      TrainAligner(*math, train.view(), held_out.view(), SmallTraining(), {}, count).value();
  EXPECT_GT(last_step, 0);
  EXPECT_NEAR(first.held_out_loss_before, 1.0, 0.3);
  EXPECT_LT(first.held_out_loss, 0.15 * first.held_out_loss_before);

  const TrainedAligner second =
      TrainAligner(*math, train.view(), held_out.view(), SmallTraining(), {}, nullptr).value();
  EXPECT_EQ(second.mlp.parameters(), first.mlp.parameters());
}

TEST(AlignerTrainerTest, StopsEarlyAndKeepsTheLinearMapWhereNothingCanBeLearnt) {
  const auto math = HostMath::Create(1).value();
  const Problem train = MakeNoise(200, 3);
  const Problem held_out = MakeNoise(200, 4);
  AlignerTraining training = SmallTraining();
  training.max_epochs = 100;
  training.learning_rate = 2e-2;
  const TrainedAligner trained =
      TrainAligner(*math, train.view(), held_out.view(), training, {}, nullptr).value();
  EXPECT_LT(trained.epochs, 20);
  EXPECT_LE(trained.held_out_loss, trained.held_out_loss_before);
}

TEST(AlignerTrainerTest, FewerRowsThanABatchAndNoHeldOutRowsStillTrain) {
  const auto math = HostMath::Create(1).value();
  const Problem train = MakeProblem(10, 1);
  const TrainedAligner trained =
      TrainAligner(*math, train.view(), AlignerRows{}, SmallTraining(), {}, nullptr).value();
  EXPECT_EQ(trained.epochs, 20);
  EXPECT_EQ(trained.held_out_loss, 0.0);
}

TEST(AlignerTrainerTest, StopsWhenAskedAndRefusesNoRows) {
  const auto math = HostMath::Create(1).value();
  const Problem train = MakeProblem(100, 1);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(TrainAligner(*math, train.view(), {}, SmallTraining(), stop.get_token(), nullptr).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(TrainAligner(*math, {}, {}, SmallTraining(), {}, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace scd
