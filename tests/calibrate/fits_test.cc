// The fits of a tiny pair from its traces, and what the evaluator measures with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "calibrate/bundle_tensors.h"
#include "calibrate/held_out_evaluator.h"
#include "calibrate/patch_stage.h"
#include "calibrate/reuse_stage.h"
#include "calibrate/trace_stage.h"
#include "common/bundle/bundle.h"
#include "common/bundle/bundle_writer.h"
#include "tests/calibrate/tiny_run.h"

namespace scd {
namespace {

using ::testing::HasSubstr;
using testing::TinyRun;

class FitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    traces_ = RunTraceStage(run_.context(), *run_.loaded().producer, *run_.loaded().consumer,
                            run_.shape({1, 3}), prefixes_, {.hold_out_every = 5}, Inputs(), run_.workers())
                  .value();
  }

  static Digest Inputs() { return DigestBuilder("test").Finish(); }
  absl::StatusOr<std::vector<LayerReuse>> FitReuse(std::int64_t rank) {
    return RunReuseStage(run_.context(), traces_,
                         {.max_rank_k = 16, .max_rank_v = 16, .rank_k = rank, .rank_v = rank},
                         run_.workers());
  }
  absl::StatusOr<std::vector<LayerPatch>> FitPatch(const PatchOptions& options) {
    return RunPatchStage(run_.context(), *traces_.store, {3, 1}, options, Inputs(), 2);
  }
  static PatchOptions SmallPatch() {
    return {.ranks = {24, 48},
            .training = {.mlp_width = 32, .max_epochs = 3, .batch_rows = 64, .learning_rate = 3e-3}};
  }

  absl::StatusOr<std::unique_ptr<Bundle>> Write(const std::vector<LayerReuse>& reuse,
                                                const std::vector<LayerPatch>& patch) {
    BundleManifest m = run_.Manifest();
    m.default_rank_k = m.default_rank_v = 12;
    m.max_rank_k = m.max_rank_v = 16;
    if (!patch.empty()) {
      m.ranks_h = {24, 48};
      m.default_rank_h = 48;
      m.candidate_layers = {3, 1};
      m.mlp_width = 32;
    }
    m.layer_errors.resize(reuse.size());
    const std::string folder = run_.File("bundle");
    FittedPair fitted;
    fitted.reuse = reuse;
    fitted.patch = patch;
    if (const auto digest = WriteBundle(folder, m, BundleTensorsOf(fitted)); !digest.ok()) {
      return digest.status();
    }
    return Bundle::Open(folder);
  }

  TinyRun run_{0.05f};
  Prefixes prefixes_ = TinyRun::RandomPrefixes(30, 60, 5);
  Traces traces_;
};

TEST_F(FitsTest, ReuseErrorsFallWithTheRank) {
  double before = 1e9;
  for (const std::int64_t rank : {2, 6, 12, 16}) {
    const auto reuse = FitReuse(rank).value();
    ASSERT_EQ(reuse.size(), 4u);
    EXPECT_LT(reuse[2].error_v, before);
    before = reuse[2].error_v;
    EXPECT_EQ(reuse[2].k.rank, 16);
  }
  EXPECT_LT(before, 0.3);
}

TEST_F(FitsTest, PatchIsNestedKeptAndNoWorseThanItsLinearMap) {
  const auto patch = FitPatch(SmallPatch()).value();
  ASSERT_EQ(patch.size(), 2u);
  EXPECT_EQ(patch[0].layer, 3);
  for (const LayerPatch& layer : patch) {
    ASSERT_EQ(layer.ranks.size(), 2u);
    EXPECT_EQ(layer.linear.rank, 48);
    EXPECT_LT(layer.ranks[1].linear_error, layer.ranks[0].linear_error);
    for (const AlignerNetwork& network : layer.ranks) EXPECT_LE(network.error, network.linear_error);
  }
  // A later run takes them from the work folder, to the bit.
  run_.OpenWork();
  PatchOptions options = SmallPatch();
  const auto again = FitPatch(options).value();
  EXPECT_THAT(run_.log().text, HasSubstr("were fitted by an earlier run"));
  EXPECT_EQ(again[1].linear.decoder, patch[1].linear.decoder);
  EXPECT_EQ(again[1].ranks[0].mlp_out, patch[1].ranks[0].mlp_out);
  EXPECT_EQ(again[1].ranks[1].error, patch[1].ranks[1].error);

  // The linear map of the lower rank alone is the first columns of the higher one.
  PatchOptions lower = SmallPatch();
  lower.ranks = {24};
  const auto alone = FitPatch(lower).value();
  for (std::size_t i = 0; i < alone[0].linear.encoder.size(); ++i) {
    EXPECT_NEAR(alone[0].linear.encoder[i], patch[0].linear.encoder[i], 1e-6);
  }
}

TEST_F(FitsTest, TheEvaluatorSeesTheOracleReuseAndPatch) {
  const auto bundle = Write(FitReuse(12).value(), FitPatch(SmallPatch()).value()).value();
  const EvaluatorOptions options{.native_head = 1, .native_tail = 4, .scored_tokens = 8, .max_prefixes = 4};
  const auto evaluator =
      HeldOutEvaluator::Create(*run_.loaded().consumer, *traces_.store, prefixes_, options, {}).value();
  EXPECT_EQ(evaluator->num_prefixes(), 4);
  EXPECT_FALSE(evaluator->ScoreWith({}, StateSource::kReuse).ok());
  ASSERT_TRUE(evaluator->UseBundle(*bundle).ok());

  const std::vector<std::int64_t> all = {0, 1, 2, 3};
  const HeldOutScore oracle = evaluator->ScoreWith(all, StateSource::kOracle).value();
  EXPECT_NEAR(oracle.kl, 0.0, 1e-9);
  EXPECT_NEAR(oracle.ppl, evaluator->oracle_ppl(), 1e-4 * oracle.ppl);
  const HeldOutScore reuse = evaluator->ScoreWith({}, StateSource::kReuse).value();
  EXPECT_GT(reuse.kl, 1e-7);
  EXPECT_LT(reuse.kl, 0.5);
  const HeldOutScore part = evaluator->ScoreWith({0, 1, 2}, StateSource::kOracle).value();
  EXPECT_LT(part.kl, reuse.kl);
  const HeldOutScore patched = evaluator->ScoreWith({3, 1}, StateSource::kPatch).value();
  EXPECT_GT(patched.kl, 0.0);
  EXPECT_NE(patched.kl, reuse.kl);
  // Going back gives the same numbers.
  EXPECT_EQ(evaluator->ScoreWith({}, StateSource::kReuse)->kl, reuse.kl);
  EXPECT_THAT(evaluator->ScoreWith({0}, StateSource::kPatch).status().message(),
              HasSubstr("no Patch candidate"));
}

TEST_F(FitsTest, TheOracleStateIsTheNativePrefill) {
  const EvaluatorOptions options{.native_head = 1, .native_tail = 4, .scored_tokens = 8, .max_prefixes = 1};
  const auto evaluator =
      HeldOutEvaluator::Create(*run_.loaded().consumer, *traces_.store, prefixes_, options, {}).value();
  // The perplexity of the same tokens by one plain forward pass.
  const std::vector<std::int32_t>& ids = prefixes_[4];
  const Transformer& model = *run_.loaded().consumer;
  const ModelConfig& c = model.config();
  const auto cache = PagedKvCache::Create(model.backend(),
                                          {.num_layers = c.num_layers,
                                           .num_kv_heads = c.num_kv_heads,
                                           .head_dim = c.head_dim,
                                           .page_tokens = 16},
                                          8)
                         .value();
  const auto sequence = Sequence::Create(*cache, 60).value();
  const auto workspace = model.CreateWorkspace(60, 60).value();
  const ForwardChunk chunk{
      .sequence = sequence.get(), .tokens = ids, .first_position = 0, .logits = LogitsWanted::kAll};
  ASSERT_TRUE(model.Forward(*workspace, {&chunk, 1}).ok());
  double nll = 0;
  for (std::int64_t position = 51; position < 59; ++position) {
    const float* row = workspace->logits().row<float>(position);
    double sum = 0;
    for (std::int64_t i = 0; i < c.vocab_size; ++i) sum += std::exp(static_cast<double>(row[i]));
    nll += std::log(sum) - row[ids[static_cast<std::size_t>(position + 1)]];
  }
  EXPECT_NEAR(evaluator->oracle_ppl(), std::exp(nll / 8), 1e-3 * evaluator->oracle_ppl());
}

TEST_F(FitsTest, PrefixesThatAreTooShortToMeasureAreSaid) {
  const EvaluatorOptions options{.native_head = 30, .native_tail = 40, .scored_tokens = 8, .max_prefixes = 1};
  const auto evaluator =
      HeldOutEvaluator::Create(*run_.loaded().consumer, *traces_.store, prefixes_, options, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(evaluator.status()));
  EXPECT_THAT(evaluator.status().message(), HasSubstr("at least 73 tokens"));
}

}  // namespace
}  // namespace scd
