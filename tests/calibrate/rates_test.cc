// Fused translators and rate points of a tiny pair, with the codec and the rebuilder that serve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/bundle_tensors.h"
#include "calibrate/code_samples.h"
#include "calibrate/fused_stage.h"
#include "calibrate/held_out_evaluator.h"
#include "calibrate/kv_rows.h"
#include "calibrate/patch_stage.h"
#include "calibrate/rate_stage.h"
#include "calibrate/reuse_stage.h"
#include "calibrate/trace_stage.h"
#include "common/bundle/bundle.h"
#include "common/bundle/bundle_layout.h"
#include "common/bundle/bundle_writer.h"
#include "common/translate/layer_encoder.h"
#include "common/translate/layer_rebuilder.h"
#include "tests/calibrate/tiny_run.h"

namespace scd {
namespace {

using ::testing::HasSubstr;
using testing::TinyRun;

class RatesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    traces_ = RunTraceStage(run_.context(), *run_.loaded().producer, *run_.loaded().consumer,
                            run_.shape({0, 1, 2, 3}), prefixes_, {.hold_out_every = 5, .pass_tokens = 80},
                            Inputs(), run_.workers())
                  .value();
    fitted_.reuse =
        RunReuseStage(run_.context(), traces_,
                      {.max_rank_k = 16, .max_rank_v = 14, .rank_k = 12, .rank_v = 12}, run_.workers())
            .value();
    fitted_.candidates = {3, 1};
    fitted_.patch =
        RunPatchStage(run_.context(), store(), fitted_.candidates,
                      {.ranks = {24, 48}, .training = {.mlp_width = 16, .max_epochs = 1}}, Inputs(), 2)
            .value();
  }

  static Digest Inputs() { return DigestBuilder("test").Finish(); }
  const TraceStore& store() const { return *traces_.store; }
  static FusedOptions SmallFused() { return {.rank = 60, .group = 3, .distortion = 0.04}; }
  std::vector<FusedGroup> FitFused(const FusedOptions& options) {
    return RunFusedStage(run_.context(), store(), *run_.loaded().consumer, options, Inputs(), 2).value();
  }

  absl::StatusOr<std::unique_ptr<Bundle>> Write(const FittedPair& fitted) {
    BundleManifest m = run_.Manifest();
    m.default_rank_k = m.default_rank_v = 12;
    m.max_rank_k = 16;
    m.max_rank_v = 14;
    m.ranks_h = {24, 48};
    m.default_rank_h = 48;
    m.candidate_layers = fitted.candidates;
    m.mlp_width = 16;
    if (!fitted.fused.empty()) {
      const FusedGroup& group = fitted.fused[0];
      m.fused = {.rank = group.linear.translator.rank, .group = group.layers.size()};
    }
    for (const FittedRate& rate : fitted.rates) m.rate_points.push_back(rate.point);
    m.default_rate_point = fitted.default_rate;
    m.layer_errors.resize(fitted.reuse.size());
    const std::string folder = run_.File("bundle");
    const auto digest = WriteBundle(folder, m, BundleTensorsOf(fitted));
    if (!digest.ok()) return digest.status();
    return Bundle::Open(folder);
  }

  std::unique_ptr<HeldOutEvaluator> MakeEvaluator() {
    return HeldOutEvaluator::Create(
               *run_.loaded().consumer, store(), prefixes_,
               {.native_head = 1, .native_tail = 4, .scored_tokens = 8, .max_prefixes = 4}, {})
        .value();
  }
  std::vector<CodeSample> Sample() {
    return SampleCodes(run_.context(), store(), *run_.loaded().producer, *run_.loaded().consumer, fitted_,
                       run_.workers())
        .value();
  }
  absl::Status RunRates(const EntropyConfig& config, const std::vector<CodeSample>& samples) {
    const auto evaluator = MakeEvaluator();
    return RunRateStage(
        run_.context(), config, samples, *evaluator,
        [this](const FittedPair& fitted) { return Write(fitted); }, run_.workers(), &fitted_);
  }

  TinyRun run_{0.1f};
  Prefixes prefixes_ = TinyRun::RandomPrefixes(40, 90, 5);
  Traces traces_;
  FittedPair fitted_;
};

TEST_F(RatesTest, ProjectedRowsAreThoseOfTheForwardPass) {
  // Of held-out prefixes both the attention inputs and K and V are kept.
  for (const PairSide side : {PairSide::kProducer, PairSide::kConsumer}) {
    const Transformer& model =
        side == PairSide::kProducer ? *run_.loaded().producer : *run_.loaded().consumer;
    const auto rows = KvRows::Create(store(), model, side).value();
    for (TracePiece piece : store().pieces()) {
      if (!piece.held_out) continue;
      std::vector<float> kept, projected;
      ASSERT_TRUE(rows->Read(piece, 2, &kept).ok());
      piece.held_out = false;
      ASSERT_TRUE(rows->Read(piece, 2, &projected).ok());
      ASSERT_EQ(kept.size(), projected.size());
      for (std::size_t i = 0; i < kept.size(); ++i) ASSERT_NEAR(kept[i], projected[i], 1e-4) << i;
    }
  }
}

// One layer a group, as LayerRebuilder::Decode gives K and V of.
TEST_F(RatesTest, WhatTheConsumerRebuildsHasTheErrorsOfTheFit) {
  FusedOptions options = SmallFused();
  options.group = 1;
  options.rank = 30;
  fitted_.fused = FitFused(options);
  ASSERT_EQ(fitted_.fused.size(), 4u);
  const auto bundle = Write(fitted_).value();
  const LayerPlan plan = bundle->ResolvePlan({.form = StateForm::kFused, .codec = Codec::kF32}).value();
  const Transformer& consumer = *run_.loaded().consumer;
  Backend& backend = consumer.backend();
  const auto stream = backend.CreateStream().value();
  std::vector<KvProjection> projections;
  for (std::int64_t l = 0; l < 4; ++l) projections.push_back(consumer.kv_projection(l));
  const auto encoder = LayerEncoder::Create(*bundle, plan, consumer.rope(), backend).value();
  const auto rebuilder = LayerRebuilder::Create(*bundle, plan, projections, consumer.rope(), backend).value();
  const auto encoding = encoder->CreateWorkspace(90).value();
  const auto rebuilding = rebuilder->CreateWorkspace(90).value();
  const auto kv_rows = KvRows::Create(store(), consumer, PairSide::kConsumer).value();
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    const FusedGroup& fused = fitted_.fused[static_cast<std::size_t>(layer)];
    // A prefix may lie in two pieces: its rows together, as they would be sent.
    std::map<std::int64_t, std::vector<float>> hidden, actual;
    std::vector<double> mean(32, 0.0);
    for (const TracePiece& piece : store().pieces()) {
      std::vector<float> h, kv;
      ASSERT_TRUE(store().ReadHidden(piece, layer, PairSide::kProducer, &h).ok());
      ASSERT_TRUE(kv_rows->Read(piece, layer, &kv).ok());
      if (piece.held_out) {
        hidden[piece.prefix].insert(hidden[piece.prefix].end(), h.begin(), h.end());
        actual[piece.prefix].insert(actual[piece.prefix].end(), kv.begin(), kv.end());
        continue;
      }
      for (std::size_t i = 0; i < kv.size(); ++i) {
        mean[i % 32] += kv[i] / static_cast<double>(store().NumRows(false));
      }
    }
    double error = 0, spread = 0;
    for (auto& [prefix, h] : hidden) {
      const auto rows = static_cast<std::int64_t>(h.size()) / 64;
      ASSERT_EQ(rows, 89);
      std::vector<float> k(static_cast<std::size_t>(rows * 16)), v(k.size());
      // The first payload ends where the first granule of positions does.
      for (const auto& [begin, count] :
           std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 31}, {31, 58}}) {
        const LayerCode code = encoder
                                   ->Encode(*encoding, *stream, layer, CodeKind::kKV,
                                            MatrixView(h.data(), rows, 64).rows(begin, count), 1 + begin)
                                   .value();
        ASSERT_TRUE(rebuilder
                        ->Decode(*rebuilding, *stream, code,
                                 MatrixView(k.data(), rows, 16).rows(begin, count),
                                 MatrixView(v.data(), rows, 16).rows(begin, count))
                        .ok());
      }
      ASSERT_TRUE(backend.Synchronize(*stream).ok());
      for (std::size_t i = 0; i < k.size(); ++i) {
        for (const bool is_k : {true, false}) {
          const std::size_t output = i % 16 + (is_k ? 0 : 16);
          const double sd = fused.linear.spreads[is_k ? 0 : 1];
          const double x = actual[prefix][i / 16 * 32 + output];
          error += std::pow(((is_k ? k : v)[i] - x) / sd, 2);
          spread += std::pow((x - mean[output]) / sd, 2);
        }
      }
    }
    const double fitted = fused.each[0].plain_error;
    EXPECT_NEAR(std::sqrt(error / spread), fitted, 1e-3 * fitted) << layer;
  }
}

TEST_F(RatesTest, GroupsOfFusedLayersAreServed) {
  fitted_.fused = FitFused(SmallFused());
  const auto bundle = Write(fitted_).value();
  const LayerPlan plan = bundle->ResolvePlan({.form = StateForm::kFused}).value();
  const PlanScore score = MakeEvaluator()->ScorePlan(*bundle, plan).value();
  EXPECT_GT(score.quality.kl, 0.0);
  EXPECT_LT(score.quality.kl, 1.0);
  // Columns that no rate point sends may be left out.
  const std::vector<FusedGroup> whole = fitted_.fused;
  CutUnsent(0.5, &fitted_.fused);
  const std::int64_t rank = fitted_.fused[0].linear.translator.rank;
  EXPECT_LT(rank, 60);
  EXPECT_EQ(fitted_.fused[1].linear.translator.rank, rank);
  for (const FusedGroup& group : whole) {
    const std::vector<float> steps = group.linear.Steps(0.5);
    for (std::size_t c = static_cast<std::size_t>(rank); c < steps.size(); ++c) EXPECT_EQ(steps[c], 0.0f);
  }
  EXPECT_TRUE(Write(fitted_).ok());
}

TEST_F(RatesTest, FusedGroupsAreKeptAndTakenFromTheWorkFolder) {
  const auto fused = FitFused(SmallFused());
  ASSERT_EQ(fused.size(), 2u);
  EXPECT_EQ(fused[0].layers, (LayerRange{0, 2}));
  EXPECT_EQ(fused[1].layers, (LayerRange{3, 3}));
  run_.OpenWork();
  const auto again = FitFused(SmallFused());
  EXPECT_THAT(run_.log().text, HasSubstr("fused: 2 of 2 layers were fitted by an earlier run"));
  for (std::size_t i = 0; i < fused.size(); ++i) {
    EXPECT_EQ(again[i].layers, fused[i].layers);
    EXPECT_EQ(again[i].linear.translator.decoder, fused[i].linear.translator.decoder);
    EXPECT_EQ(again[i].linear.translator.out, fused[i].linear.translator.out);
    EXPECT_EQ(again[i].linear.variances, fused[i].linear.variances);
    EXPECT_EQ(again[i].linear.spreads, fused[i].linear.spreads);
    ASSERT_EQ(again[i].each.size(), fused[i].each.size());
    EXPECT_EQ(again[i].each[0].encoder, fused[i].each[0].encoder);
    EXPECT_EQ(again[i].each[0].plain_error, fused[i].each[0].plain_error);
    EXPECT_EQ(again[i].each[0].coded_error, fused[i].each[0].coded_error);
  }
  FusedOptions other = SmallFused();
  other.distortion = 0.08;
  EXPECT_GT(FitFused(other)[0].each[0].coded_error, fused[0].each[0].coded_error);
}

TEST_F(RatesTest, SamplesAreOfEveryCodeAtItsLargestRank) {
  fitted_.fused = FitFused(SmallFused());
  const auto bundle = Write(fitted_).value();
  const std::vector<CodeSample> samples = Sample();
  std::size_t next = 0;
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    for (const SentKind& kind : FittedKinds(bundle->manifest(), layer)) {
      ASSERT_LT(next, samples.size());
      const CodeSample& sample = samples[next++];
      EXPECT_EQ(sample.layer, layer);
      EXPECT_EQ(sample.kind, kind.kind);
      EXPECT_EQ(sample.rows->view().dim(1), kind.rank);
      EXPECT_EQ(sample.rows->view().dim(0), store().NumRows(false));
      EXPECT_EQ(sample.variances.size(), static_cast<std::size_t>(kind.rank));
      // Latents are scaled so that what they explain has at most the outputs' own variance.
      double explained = 0;
      for (std::size_t c = 0; c < sample.variances.size(); ++c) {
        explained += sample.variances[c] * sample.weights[c];
      }
      const double outputs = kind.kind == CodeKind::kKV  ? (layer == 3 ? 32 : 96)
                             : kind.kind == CodeKind::kH ? 64
                                                         : 16;
      EXPECT_LT(explained, 1.3 * outputs);
      EXPECT_GT(explained, 0.1 * outputs);
    }
  }
  EXPECT_EQ(next, samples.size());
}

TEST_F(RatesTest, MoreDistortionIsFewerBytesAndTheBundleServesEachPoint) {
  fitted_.fused = FitFused(SmallFused());
  ASSERT_TRUE(
      RunRates({.distortions = {0.005, 0.02, 0.08, 0.3}, .default_distortion = 0.08, .target = {}}, Sample())
          .ok());
  ASSERT_EQ(fitted_.rates.size(), 4u);
  EXPECT_EQ(fitted_.default_rate, 2);
  for (std::size_t i = 1; i < fitted_.rates.size(); ++i) {
    EXPECT_LT(fitted_.rates[i].point.bytes_per_token, fitted_.rates[i - 1].point.bytes_per_token);
  }
  const auto bundle = Write(fitted_).value();
  const LayerPlan plan = bundle->ResolvePlan({.form = StateForm::kFused}).value();
  EXPECT_EQ(plan.codec, Codec::kEntropy);
  EXPECT_EQ(plan.rate_point, 2);
  const auto evaluator = MakeEvaluator();
  const PlanScore score = evaluator->ScorePlan(*bundle, plan).value();
  EXPECT_EQ(score.bytes_per_token, fitted_.rates[2].point.bytes_per_token);
  EXPECT_EQ(score.quality.kl, fitted_.rates[2].point.kl);
  // Far fewer than the same codes in bf16: two groups of 60 columns.
  const LayerPlan plain = bundle->ResolvePlan({.form = StateForm::kFused, .codec = Codec::kBF16}).value();
  const PlanScore bf16 = evaluator->ScorePlan(*bundle, plain).value();
  EXPECT_EQ(bf16.bytes_per_token, 2 * 60 * 2);
  EXPECT_LT(score.bytes_per_token, 0.5 * bf16.bytes_per_token);
  EXPECT_LT(bf16.quality.kl, fitted_.rates[3].point.kl);
}

TEST_F(RatesTest, WithoutFusedTranslatorsTheCurveIsThatOfTheDefaultPlan) {
  fitted_.choice.layers = {};
  ASSERT_TRUE(RunRates({.distortions = {0.01, 0.1}, .default_distortion = 0.1, .target = {}}, Sample()).ok());
  EXPECT_LT(fitted_.rates[1].point.bytes_per_token, fitted_.rates[0].point.bytes_per_token);
  EXPECT_GT(fitted_.rates[1].point.kl, 0.0);
  const auto bundle = Write(fitted_).value();
  const LayerPlan plan = bundle->ResolvePlan({.form = StateForm::kCodes, .codec = Codec::kEntropy}).value();
  const PlanScore score = MakeEvaluator()->ScorePlan(*bundle, plan).value();
  EXPECT_EQ(score.bytes_per_token, fitted_.rates[1].point.bytes_per_token);
}

TEST_F(RatesTest, APlanInPlainNumbersScoresAsItsLayersDo) {
  const auto bundle = Write(fitted_).value();
  const auto evaluator = MakeEvaluator();
  ASSERT_TRUE(evaluator->UseBundle(*bundle).ok());
  const HeldOutScore reuse = evaluator->ScoreWith({}, StateSource::kReuse).value();
  const LayerPlan plan = bundle->ResolvePlan({.patch_layers = std::vector<std::int64_t>()}).value();
  const PlanScore score = evaluator->ScorePlan(*bundle, plan).value();
  EXPECT_EQ(score.quality.kl, reuse.kl);
  EXPECT_EQ(score.bytes_per_token, 4 * (12 + 12) * 2);
  // And the other way round: what ScorePlan left in the pages is written anew.
  EXPECT_EQ(evaluator->ScoreWith({}, StateSource::kReuse)->kl, reuse.kl);
}

TEST_F(RatesTest, ATargetOfBytesIsMetWithinFivePercentAndBecomesTheDefault) {
  fitted_.fused = FitFused(SmallFused());
  const std::vector<CodeSample> samples = Sample();
  EntropyConfig config{.distortions = {0.01, 0.04, 0.16}, .default_distortion = 0.04, .target = {}};
  ASSERT_TRUE(RunRates(config, samples).ok());
  const double between =
      0.5 * (fitted_.rates[0].point.bytes_per_token + fitted_.rates[1].point.bytes_per_token);
  fitted_.rates.clear();
  config.target.bytes_per_token = between;
  ASSERT_TRUE(RunRates(config, samples).ok());
  ASSERT_EQ(fitted_.rates.size(), 4u);
  EXPECT_EQ(fitted_.default_rate, 1);
  const RatePoint& point = fitted_.rates[1].point;
  EXPECT_LE(point.bytes_per_token, between);
  EXPECT_GE(point.bytes_per_token, 0.95 * between);
  EXPECT_GT(point.distortion, 0.01);
  EXPECT_LT(point.distortion, 0.04);
  const auto bundle = Write(fitted_).value();
  const LayerPlan plan = bundle->ResolvePlan({.form = StateForm::kFused}).value();
  EXPECT_EQ(plan.rate_point, 1);
  EXPECT_EQ(MakeEvaluator()->ScorePlan(*bundle, plan)->bytes_per_token, point.bytes_per_token);
}

TEST_F(RatesTest, ATargetThatCannotBeMetIsRefused) {
  fitted_.fused = FitFused(SmallFused());
  const absl::Status status =
      RunRates({.distortions = {0.04}, .default_distortion = 0.04, .target = {.kl = 1e-9}}, Sample());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              HasSubstr("entropy.target_kl: 1e-09 cannot be met; the closest: at distortion"));
}

}  // namespace
}  // namespace scd
