#include "eval/drift/drift_probe.h"

#include "common/io/json.h"
#include "eval/drift/drift_recursion.h"
#include "gmock/gmock.h"
#include "tests/eval/drift/drift_rig.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

using testing::DriftRig;
using testing::DriftTokens;
using ::testing::HasSubstr;

const std::vector<std::int64_t> kNoPatch;

LayerPlan Plan(const Bundle& bundle, PlanRequest request) {
  request.codec = Codec::kF32;
  auto plan = bundle.ResolvePlan(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

class DriftProbeTest : public ::testing::TestWithParam<std::string> {
 protected:
  static std::vector<DriftSums> Measure(const DriftRig& rig, const Bundle& bundle,
                                        const std::vector<LayerPlan>& plans, std::int64_t pass_tokens = 512) {
    const auto probe = DriftProbe::Create(*rig.producer, *rig.consumer, bundle, plans,
                                          {DriftRig::kPrompt, DriftRig::kContinuation, pass_tokens});
    EXPECT_TRUE(probe.ok()) << probe.status();
    auto sums = (*probe)->Measure(prompt(), continuation());
    EXPECT_TRUE(sums.ok()) << sums.status();
    // Nothing is left over from one prompt to the next.
    const auto again = (*probe)->Measure(prompt(), continuation());
    EXPECT_EQ(again->back().hidden.back().error, sums->back().hidden.back().error);
    return *std::move(sums);
  }

  static std::vector<std::int32_t> prompt() { return DriftTokens(0, DriftRig::kPrompt); }
  static std::vector<std::int32_t> continuation() {
    return DriftTokens(DriftRig::kPrompt, DriftRig::kContinuation);
  }

  static void ExpectNear(const std::vector<ErrorSum>& actual, const nlohmann::json& expected,
                         const char* what) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_NEAR(actual[i].Relative(), expected[i].get<double>(), 2e-5) << what << " " << i;
    }
  }

  static void ExpectSums(const std::vector<DriftSums>& sums) {
    const auto expected = ParseJsonFile(testing::TestDataPath("drift.json"));
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_EQ(sums.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      const nlohmann::json& e = (*expected)[i == 0 ? "reuse" : "scd"];
      SCOPED_TRACE(i);
      ExpectNear(sums[i].k, e["k"], "k");
      ExpectNear(sums[i].v, e["v"], "v");
      ExpectNear(sums[i].hidden, e["hidden"], "hidden");
      ExpectNear(sums[i].from_input, e["from_input"], "from_input");
      ExpectNear(sums[i].from_kv, e["from_kv"], "from_kv");
    }
  }
};

TEST_P(DriftProbeTest, AgreesWithTheDefinitions) {
  const DriftRig rig(GetParam(), 0.3f, 500.0);
  const auto bundle = rig.NoisyBundle();
  const std::vector<LayerPlan> plans = {Plan(*bundle, {.patch_layers = kNoPatch}), Plan(*bundle, {})};
  ASSERT_EQ(plans[1].patch_layers(), std::vector<std::int64_t>{1});
  for (const std::int64_t pass_tokens : {512, 7, 1}) {
    SCOPED_TRACE(pass_tokens);
    ExpectSums(Measure(rig, *bundle, plans, pass_tokens));
  }
}

TEST_P(DriftProbeTest, TheIdentityBetweenEqualModelsDriftsNowhere) {
  const DriftRig rig(GetParam(), 0.0f, 10000.0);
  const auto bundle = rig.IdentityBundle();
  const auto all = Measure(rig, *bundle, {Plan(*bundle, {.patch_layers = kNoPatch}), Plan(*bundle, {})});
  for (const DriftSums& sums : all) {
    for (const auto* errors : {&sums.k, &sums.v, &sums.hidden, &sums.from_input, &sums.from_kv}) {
      for (const ErrorSum& error : *errors) {
        EXPECT_GT(error.norm, 0);
        EXPECT_LT(error.Relative(), 1e-6);
      }
    }
  }
}

TEST_P(DriftProbeTest, ErrorsGrowAsTheRankFalls) {
  const DriftRig rig(GetParam(), 0.0f, 10000.0);
  const auto bundle = rig.IdentityBundle();
  std::vector<LayerPlan> plans;
  for (const std::int64_t rank : {16, 12, 8, 4}) {
    plans.push_back(Plan(*bundle, {.rank_k = rank, .rank_v = rank, .patch_layers = kNoPatch}));
  }
  const auto sums = Measure(rig, *bundle, plans);
  for (std::size_t i = 1; i < plans.size(); ++i) {
    SCOPED_TRACE(i);
    for (std::size_t l = 0; l < 3; ++l) {
      EXPECT_GT(sums[i].k[l].Relative(), sums[i - 1].k[l].Relative() + 0.01);
      EXPECT_GT(sums[i].v[l].Relative(), sums[i - 1].v[l].Relative() + 0.01);
    }
    EXPECT_GT(sums[i].hidden[3].Relative(), sums[i - 1].hidden[3].Relative() + 0.01);
    EXPECT_EQ(sums[i].hidden[0].Relative(), 0);  // the embedding
  }
}

// With nothing but one layer's KV wrong, the recursion is exact up to that layer's output.
TEST_P(DriftProbeTest, TheFirstLayersDriftIsItsBetaTimesEps) {
  const DriftRig rig(GetParam(), 0.3f, 500.0);
  const auto bundle = rig.NoisyBundle();
  const auto sums = Measure(rig, *bundle, {Plan(*bundle, {})});
  const auto predicted = PredictDrift(EstimateDrift(sums[0]));
  EXPECT_NEAR(predicted[1], sums[0].hidden[1].Relative(), 1e-6);
}

TEST_P(DriftProbeTest, RefusesWhatItCannotMeasure) {
  const DriftRig rig(GetParam(), 0.0f, 10000.0);
  const auto bundle = rig.IdentityBundle({33});
  const auto create = [&](const std::vector<LayerPlan>& plans, const DriftLimits& limits) {
    return DriftProbe::Create(*rig.producer, *rig.consumer, *bundle, plans, limits).status();
  };
  const auto expect = [](const absl::Status& status, absl::StatusCode code, const std::string& text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  const LayerPlan plan = Plan(*bundle, {});
  const DriftLimits limits{DriftRig::kPrompt, DriftRig::kContinuation};
  using enum absl::StatusCode;
  expect(create({}, limits), kInvalidArgument, "no plans");
  expect(create({plan, Plan(*bundle, {.native_tail = 5})}, limits), kInvalidArgument, "plan 1");
  expect(create({Plan(*bundle, {.form = StateForm::kRaw})}, limits), kInvalidArgument, "Reuse and Patch");
  expect(create({plan}, {0, 0}), kOutOfRange, "0 tokens");
  expect(create({plan}, {60, 5}), kOutOfRange, "holds 64");
  expect(create({plan}, {60, -1}), kOutOfRange, "-1 after");
  expect(create({plan}, {60, 1, 0}), kOutOfRange, "pass");
  ModelConfig deeper = rig.config;
  deeper.num_layers = 4;
  const auto other = *Transformer::Create(deeper, testing::RandomWeights(deeper), *rig.backend);
  expect(DriftProbe::Create(*rig.producer, *other, *bundle, {plan}, limits).status(), kFailedPrecondition,
         "the consumer has another shape");

  const auto probe = *DriftProbe::Create(*rig.producer, *rig.consumer, *bundle, {plan}, limits);
  const auto measure = [&](const std::vector<std::int32_t>& prompt,
                           const std::vector<std::int32_t>& continuation) {
    return probe->Measure(prompt, continuation).status();
  };
  expect(measure(DriftTokens(0, 32), {}), kOutOfRange, "32 tokens");
  expect(measure(DriftTokens(0, 20), DriftTokens(0, 7)), kOutOfRange, "7");
  expect(measure({}, {}), kInvalidArgument, "leaves nothing");
  expect(measure(DriftTokens(0, 4), {}), kInvalidArgument, "leaves nothing");
  expect(measure({1, 33, 3, 4, 5, 6}, {}), kInvalidArgument, "id 33");
  expect(measure({1, 50, 3, 4, 5, 6}, {}), kInvalidArgument, "id 50");
  expect(measure({1, -1, 3, 4, 5, 6}, {}), kInvalidArgument, "-1");
  expect(measure({1, 2, 3, 4, 5, 50}, {}), kInvalidArgument, "50");
  std::stop_source stop;
  stop.request_stop();
  expect(probe->Measure(prompt(), continuation(), stop.get_token()).status(), kCancelled, "cancelled");
  // A refused prompt leaves nothing behind.
  EXPECT_TRUE(measure(DriftTokens(0, 5), {}).ok());
  EXPECT_TRUE(measure(prompt(), continuation()).ok());
}

INSTANTIATE_TEST_SUITE_P(Backends, DriftProbeTest, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace scd
