#include "calibrate/layer_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// KL as a sum of what each layer takes off; layer 7 makes it worse.
const std::map<std::int64_t, double> kGain = {{2, 0.10}, {5, 0.30}, {7, -0.05}, {9, 0.20}};

absl::StatusOr<double> Measure(const std::vector<std::int64_t>& layers) {
  double kl = 1.0;
  for (const std::int64_t layer : layers) kl -= kGain.at(layer);
  return kl;
}

std::vector<std::int64_t> Layers(const std::vector<PatchChoiceStep>& steps) {
  std::vector<std::int64_t> out;
  for (const PatchChoiceStep& step : steps) out.push_back(step.layer);
  return out;
}

TEST(LayerChoiceTest, RanksByWhatEachLayerAloneLeaves) {
  EXPECT_THAT(*RankLayers({2, 5, 7, 9}, &Measure), ElementsAre(5, 9, 2, 7));
  const auto equal = [](const std::vector<std::int64_t>&) -> absl::StatusOr<double> { return 1.0; };
  EXPECT_THAT(*RankLayers({9, 2, 5}, equal), ElementsAre(9, 2, 5));
  const auto broken = [](const std::vector<std::int64_t>&) -> absl::StatusOr<double> {
    return absl::CancelledError("stopped");
  };
  EXPECT_EQ(RankLayers({1}, broken).status().code(), absl::StatusCode::kCancelled);
}

TEST(LayerChoiceTest, SetsGrowAndLayersThatHarmAreLeftOut) {
  const ChoiceCost cost{.reuse = 1.0, .per_layer = 0.5};
  const auto steps = GrowSets({5, 7, 9, 2}, 1.0, false, cost, &Measure).value();
  EXPECT_THAT(Layers(steps), ElementsAre(5, 9, 2));
  EXPECT_NEAR(steps[1].kl, 0.5, 1e-12);
  EXPECT_NEAR(steps[1].gain, 0.5, 1e-12);
  EXPECT_NEAR(steps[1].gain_per_cost, 0.5 / 2.0, 1e-12);
  EXPECT_NEAR(steps[1].gain_per_layer, 0.5 / 1.0, 1e-12);
}

TEST(LayerChoiceTest, AGivenListIsKeptWhole) {
  const auto steps = GrowSets({7, 5}, 1.0, true, {}, &Measure).value();
  EXPECT_THAT(Layers(steps), ElementsAre(7, 5));
  EXPECT_LT(steps[0].gain, 0.0);
}

TEST(LayerChoiceTest, TheCountIsGivenOrWhereGainOverCostIsLargest) {
  const ChoiceCost cost{.reuse = 1.0, .per_layer = 0.5};
  // Gains 0.3, 0.5, 0.6 over costs 1.5, 2, 2.5: 0.2, 0.25, 0.24.
  const auto steps = GrowSets({5, 9, 2}, 1.0, false, cost, &Measure).value();
  EXPECT_EQ(ChooseCount(steps, std::nullopt), 2);
  EXPECT_EQ(ChooseCount(steps, 1), 1);
  EXPECT_EQ(ChooseCount(steps, 6), 3);
  EXPECT_EQ(ChooseCount({}, std::nullopt), 0);
  EXPECT_EQ(ChooseCount(GrowSets({7}, 1.0, true, cost, &Measure).value(), std::nullopt), 0);
}

TEST(LayerChoiceTest, NothingHelpsGivesNoSteps) {
  EXPECT_THAT(GrowSets({7}, 1.0, false, {}, &Measure).value(), IsEmpty());
}

}  // namespace
}  // namespace scd
