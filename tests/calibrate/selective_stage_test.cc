// What recomputing groups of layers is worth, on tiny pairs where the answer is known.
#include "calibrate/selective_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/held_out_evaluator.h"
#include "calibrate/residual_rows.h"
#include "calibrate/trace_stage.h"
#include "tests/calibrate/tiny_run.h"

namespace scd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TinyRun;

std::vector<std::pair<std::int64_t, std::int64_t>> Groups(const SelectiveConfig& config,
                                                          std::int64_t num_layers) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (const LayerRange& range : SelectiveGroups(config, num_layers))
    out.emplace_back(range.first, range.last);
  return out;
}

TEST(SelectiveGroupsTest, SizesAreSlidOverTheLayersAndEndAtTheLast) {
  EXPECT_THAT(Groups({.sizes = {{3}}}, 8), ElementsAre(std::pair(0, 2), std::pair(1, 3), std::pair(2, 4),
                                                       std::pair(3, 5), std::pair(4, 6), std::pair(5, 7)));
  EXPECT_THAT(Groups({.sizes = {{4}}}, 9),
              ElementsAre(std::pair(0, 3), std::pair(2, 5), std::pair(4, 7), std::pair(5, 8)));
  // Suffixes of the sizes between; the operator's own group last, and no group twice.
  EXPECT_THAT(Groups({.sizes = {{2, 6}}, .default_group = LayerRange{1, 3}}, 6),
              ElementsAre(std::pair(0, 1), std::pair(1, 2), std::pair(2, 3), std::pair(3, 4), std::pair(4, 5),
                          std::pair(0, 5), std::pair(2, 5), std::pair(1, 3)));
  EXPECT_THAT(Groups({.sizes = {{2}}, .default_group = LayerRange{1, 2}}, 3),
              ElementsAre(std::pair(0, 1), std::pair(1, 2)));
}

TEST(SelectiveGroupsTest, TheDefaultLadderIsBoundedWhateverTheModel) {
  const auto of_30 = Groups({}, 30);
  EXPECT_EQ(of_30.size(), 36u);
  EXPECT_THAT(of_30, Contains(std::pair(10, 29)));
  EXPECT_THAT(of_30, Contains(std::pair(17, 29)));
  EXPECT_THAT(Groups({}, 1), ElementsAre(std::pair(0, 0)));
  for (std::int64_t num_layers = 1; num_layers <= 200; ++num_layers) {
    const auto groups = Groups({}, num_layers);
    EXPECT_LE(groups.size(), 48u) << num_layers;
    for (const auto& [first, last] : groups) {
      EXPECT_GE(first, 0);
      EXPECT_LE(first, last);
      EXPECT_LT(last, num_layers);
    }
    EXPECT_EQ(std::set(groups.begin(), groups.end()).size(), groups.size());
  }
}

TEST(ChooseSelectiveGroupTest, TheSmallestThatGainsEnough) {
  const std::vector<SelectiveGroup> groups = {{.layers = {0, 1}, .kl = 0.9},
                                              {.layers = {2, 3}, .kl = 0.5},
                                              {.layers = {4, 5}, .kl = 0.4},
                                              {.layers = {0, 3}, .kl = 0.3},
                                              {.layers = {2, 7}, .kl = 0.2}};
  EXPECT_EQ(ChooseSelectiveGroup(groups, 1.0, 0.74), (LayerRange{4, 5}));
  EXPECT_EQ(ChooseSelectiveGroup(groups, 1.0, 0.5), (LayerRange{4, 5}));  // of equals the better
  EXPECT_EQ(ChooseSelectiveGroup(groups, 1.0, 0.76), (LayerRange{0, 3}));
  EXPECT_EQ(ChooseSelectiveGroup(groups, 1.0, 1.0), (LayerRange{2, 7}));
  EXPECT_EQ(ChooseSelectiveGroup(groups, 1.0, 0.0), (LayerRange{4, 5}));
  // Nothing helps.
  EXPECT_EQ(ChooseSelectiveGroup(groups, 0.1, 0.75), (LayerRange{2, 7}));
}

// A run whose traces are made and whose evaluator is ready.
struct Measured {
  Measured(float strength, const std::vector<std::string>& kept, std::int64_t tokens,
           std::int64_t native_head)
      : run(strength, kept), prefixes(TinyRun::RandomPrefixes(10, tokens, 5)) {
    traces = RunTraceStage(run.context(), *run.loaded().producer, *run.loaded().consumer, run.shape({}),
                           prefixes, {.native_head = native_head, .hold_out_every = 5},
                           DigestBuilder("test").Finish(), run.workers())
                 .value();
    evaluator = HeldOutEvaluator::Create(
                    *run.loaded().consumer, *traces.store, prefixes,
                    {.native_head = native_head, .native_tail = 4, .scored_tokens = 8, .max_prefixes = 2}, {})
                    .value();
  }
  double Kl(std::int64_t first, std::int64_t last) {
    const auto score = evaluator->ScoreSelective(LayerRange{first, last});
    EXPECT_TRUE(score.ok()) << score.status();
    return score->kl;
  }
  double Raw() { return evaluator->ScoreSelective(std::nullopt).value().kl; }

  TinyRun run;
  Prefixes prefixes;
  Traces traces;
  std::unique_ptr<HeldOutEvaluator> evaluator;
};

const std::vector<std::int64_t> kAllLayers = {0, 1, 2, 3};

TEST(SelectiveScoreTest, RecomputingEveryLayerFromSharedEmbeddingsIsTheOracle) {
  // The longer one takes two passes.
  for (const std::int64_t tokens : {60, 400}) {
    Measured m(0.5f, {"model.embed_tokens."}, tokens, 1);
    ASSERT_TRUE(m.evaluator->KeepResiduals(*m.run.loaded().producer, kAllLayers).ok());
    EXPECT_GT(m.Raw(), 1e-3);
    EXPECT_NEAR(m.Kl(0, 3), 0.0, 1e-6);
    const auto score = m.evaluator->ScoreSelective(LayerRange{0, 3});
    EXPECT_NEAR(score->ppl, m.evaluator->oracle_ppl(), 1e-4 * score->ppl);
  }
}

TEST(SelectiveScoreTest, OtherEmbeddingsLeaveADivergence) {
  Measured m(0.5f, {}, 60, 1);
  ASSERT_TRUE(m.evaluator->KeepResiduals(*m.run.loaded().producer, kAllLayers).ok());
  EXPECT_GT(m.Kl(0, 3), 1e-3);
}

TEST(SelectiveScoreTest, AGroupWhoseWeightsAreTheProducersIsWorthNothing) {
  Measured m(0.5f, {"model.layers.1.", "model.layers.2."}, 60, 0);
  ASSERT_TRUE(m.evaluator->KeepResiduals(*m.run.loaded().producer, kAllLayers).ok());
  const double raw = m.Raw();
  EXPECT_GT(raw, 1e-3);
  EXPECT_NEAR(m.Kl(1, 2), raw, 1e-5 * raw);
  EXPECT_NEAR(m.Kl(1, 1), raw, 1e-5 * raw);
  EXPECT_GT(std::abs(m.Kl(2, 3) - raw), 1e-3 * raw);
  EXPECT_GT(std::abs(m.Kl(0, 1) - raw), 1e-3 * raw);
}

TEST(SelectiveScoreTest, WhatIsMeasuredDoesNotDependOnWhatWasMeasuredBefore) {
  Measured m(0.5f, {}, 60, 1);
  ASSERT_TRUE(m.evaluator->KeepResiduals(*m.run.loaded().producer, kAllLayers).ok());
  const double raw = m.Raw();
  const double early = m.Kl(0, 1);
  const double late = m.Kl(1, 3);
  EXPECT_NE(early, late);
  EXPECT_EQ(m.Raw(), raw);
  EXPECT_EQ(m.Kl(0, 1), early);
  EXPECT_EQ(m.evaluator->Score(std::vector<StateSource>(4, StateSource::kRaw))->kl, raw);
  EXPECT_NEAR(m.evaluator->Score(std::vector<StateSource>(4, StateSource::kOracle))->kl, 0.0, 1e-9);
  EXPECT_EQ(m.Kl(1, 3), late);
}

TEST(SelectiveScoreTest, AGroupNeedsTheResidualStreamAtItsFirstLayer) {
  Measured m(0.5f, {}, 60, 1);
  const auto status = [&](std::int64_t first) {
    return m.evaluator->ScoreSelective(LayerRange{first, 3}).status();
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(status(2)));
  ASSERT_TRUE(m.evaluator->KeepResiduals(*m.run.loaded().producer, std::vector<std::int64_t>{2}).ok());
  EXPECT_TRUE(status(2).ok());
  EXPECT_THAT(status(1).message(), HasSubstr("residual stream at layer 1 was not kept"));
}

TEST(ResidualRowsTest, PassesDoNotShowAndLayerZeroIsTheEmbedding) {
  TinyRun run;
  const Transformer& model = *run.loaded().producer;
  const std::vector<std::int32_t> ids = TinyRun::RandomPrefixes(1, 50, 3)[0];
  const std::vector<std::int64_t> layers = {0, 2};
  const auto whole = CollectResiduals(model, ids, layers, 64, {}).value();
  const auto pieces = CollectResiduals(model, ids, layers, 17, {}).value();
  ASSERT_EQ(whole.size(), 2u);
  ASSERT_EQ(whole.at(2).size(), 50u * 64);
  for (std::size_t i = 0; i < whole.at(2).size(); ++i) EXPECT_NEAR(whole.at(2)[i], pieces.at(2)[i], 1e-4);
  EXPECT_EQ(whole.at(0), pieces.at(0));
  // Equal tokens have equal embeddings.
  const auto twice =
      CollectResiduals(model, std::vector<std::int32_t>{ids[7], ids[7]}, layers, 64, {}).value();
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(twice.at(0)[i], whole.at(0)[7 * 64 + i]);
    EXPECT_EQ(twice.at(0)[64 + i], whole.at(0)[7 * 64 + i]);
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(CollectResiduals(model, ids, layers, 64, stop.get_token()).status()));
}

TEST(SelectiveStageTest, TheProfileHoldsWhatWasMeasuredAndADefault) {
  Measured m(0.5f, {"model.embed_tokens."}, 60, 1);
  const SelectiveConfig config{.sizes = {{1, 2, 4}}};
  const SelectiveProfile profile =
      RunSelectiveStage(m.run.context(), config, *m.run.loaded().producer, *m.evaluator).value();
  EXPECT_EQ(profile.kl_raw, m.Raw());
  EXPECT_EQ(profile.groups.size(), 4u + 3 + 1 + 1);
  for (const SelectiveGroup& group : profile.groups) {
    EXPECT_EQ(group.kl, m.Kl(group.layers.first, group.layers.last));
    // 4 layers of 2 x 16 numbers; a residual stream of 64.
    EXPECT_DOUBLE_EQ(group.bytes_fraction, (32.0 * static_cast<double>(4 - group.layers.size()) + 64) / 128);
  }
  EXPECT_EQ(profile.default_group, ChooseSelectiveGroup(profile.groups, profile.kl_raw, 0.75));
  EXPECT_THAT(m.run.log().text, HasSubstr("selective: by default layers "));

  const SelectiveConfig given{.sizes = {{4}}, .default_group = LayerRange{1, 2}};
  const SelectiveProfile own =
      RunSelectiveStage(m.run.context(), given, *m.run.loaded().producer, *m.evaluator).value();
  EXPECT_EQ(own.default_group, (LayerRange{1, 2}));
  ASSERT_EQ(own.groups.size(), 2u);
  EXPECT_EQ(own.groups[1].kl, m.Kl(1, 2));
}

}  // namespace
}  // namespace scd
