#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/bundle/bundle.h"
#include "common/bundle/bundle_writer.h"
#include "common/config/entropy_tables.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Ranks k 6, v 8, h [8, 16] fitted; candidates [2, 1]; default patch [1].
class BundlePlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::TinyBundleOptions options;
    options.candidate_layers = {2, 1};
    bundle_ = Write(options);
    ASSERT_NE(bundle_, nullptr);
  }

  std::unique_ptr<Bundle> Write(const testing::TinyBundleOptions& options) {
    const std::string folder = dir_.File("bundle");
    const auto digest = testing::WriteTinyBundle(folder, testing::TinyConfig(), testing::MadeUpModel("base"),
                                                 testing::MadeUpModel("expert"), options);
    EXPECT_TRUE(digest.ok()) << digest.status();
    auto bundle = Bundle::Open(folder);
    EXPECT_TRUE(bundle.ok()) << bundle.status();
    return bundle.ok() ? *std::move(bundle) : nullptr;
  }

  static void ExpectRefused(const absl::Status& status, const std::string& message) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
  }
  void ExpectRefused(const PlanRequest& request, const std::string& message) {
    ExpectRefused(bundle_->ResolvePlan(request).status(), message);
  }

  const testing::TempDir dir_;
  std::unique_ptr<Bundle> bundle_;
};

TEST_F(BundlePlanTest, AnEmptyRequestIsTheBundlesOwnPlan) {
  const auto plan = bundle_->ResolvePlan({});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->ToString(),
            "reuse 3 layers at K 5 / V 7, patch 1 layer [1] at H 16, native head 1, tail 2, bf16");
  EXPECT_EQ(plan->layers[0], (LayerRanks{.treatment = LayerTreatment::kReuse, .rank_k = 5, .rank_v = 7}));
  EXPECT_EQ(plan->layers[1], (LayerRanks{.treatment = LayerTreatment::kPatch, .rank_h = 16}));
  EXPECT_TRUE(bundle_->CheckPlan(*plan).ok());
}

TEST_F(BundlePlanTest, EveryFieldCanBeAsked) {
  const auto plan = bundle_->ResolvePlan({.rank_k = 6,
                                          .rank_v = 1,
                                          .rank_h = 8,
                                          .patch_layers = std::vector<std::int64_t>{1, 2},
                                          .native_head = 0,
                                          .native_tail = 9,
                                          .codec = Codec::kF32});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->ToString(),
            "reuse 2 layers at K 6 / V 1, patch 2 layers [1 2] at H 8, native head 0, tail 9, f32");
  EXPECT_TRUE(bundle_->CheckPlan(*plan).ok());
}

TEST_F(BundlePlanTest, NoPatchLayerIsNotTheSameAsAuto) {
  const auto plan = bundle_->ResolvePlan({.patch_layers = std::vector<std::int64_t>{}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->patch_layers(), ElementsAre());
}

TEST_F(BundlePlanTest, RefusalsNameTheFieldAndWhatIsPossible) {
  ExpectRefused({.rank_k = 256}, "plan.rank_k: 256 is over this bundle's largest, 6");
  ExpectRefused({.rank_v = 9}, "plan.rank_v: 9 is over this bundle's largest, 8");
  ExpectRefused({.rank_k = 0}, "plan.rank_k: 0 is under 1; this bundle's largest is 6");
  ExpectRefused({.rank_v = -3}, "plan.rank_v: -3 is under 1; this bundle's largest is 8");
  ExpectRefused({.rank_h = 17}, "plan.rank_h: 17 is over this bundle's largest, 16");
  ExpectRefused({.rank_h = 9},
                "plan.rank_h: 9 is not among the ranks that this bundle was fitted for: 8, 16");
  ExpectRefused({.patch_layers = std::vector<std::int64_t>{0}},
                "plan.patch_layers: layer 0 is none that this bundle can patch: 1, 2");
  ExpectRefused({.patch_layers = std::vector<std::int64_t>{-1}},
                "plan.patch_layers: layer -1 is none that this bundle can patch: 1, 2");
  ExpectRefused({.patch_layers = std::vector<std::int64_t>{1, 1}}, "plan.patch_layers: layer 1 stands twice");
  ExpectRefused({.native_head = -1}, "plan.native_head: -1 is outside [0, 1048576]");
  ExpectRefused({.native_tail = 1 << 21}, "plan.native_tail: 2097152 is outside [0, 1048576]");
  ExpectRefused({.codec = static_cast<Codec>(9)},
                "plan.codec: 9 is not among the codecs: bf16, f32, int8, int4, entropy");
  ExpectRefused({.recompute_layers = LayerRange{1, 2}},
                "plan.recompute_layers: given, but a plan of codes has no such choice");
}

TEST_F(BundlePlanTest, WithoutPatchTranslatorsNothingCanBePatched) {
  testing::TinyBundleOptions options;
  options.candidate_layers = {};
  options.default_patch_layers = {};
  bundle_ = Write(options);
  ASSERT_NE(bundle_, nullptr);
  EXPECT_TRUE(bundle_->ResolvePlan({}).ok());
  ExpectRefused({.rank_h = 8}, "plan.rank_h: 8 given, but this bundle has no Patch layers");
  ExpectRefused({.patch_layers = std::vector<std::int64_t>{1}},
                "plan.patch_layers: layer 1 given, but this bundle can patch no layer");
}

TEST_F(BundlePlanTest, PlansFromTheWireAreChecked) {
  const auto resolved = bundle_->ResolvePlan({});
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const auto expect = [&](auto change, const std::string& message) {
    LayerPlan plan = *resolved;
    change(plan);
    ExpectRefused(bundle_->CheckPlan(plan), message);
  };
  expect([](LayerPlan& p) { p.layers.pop_back(); }, "plan.layers: has 3 entries, this bundle 4 layers");
  expect([](LayerPlan& p) { p.layers[3].rank_k = 7; },
         "plan.layers[3].rank_k: 7 is over this bundle's largest, 6");
  expect([](LayerPlan& p) { p.layers[3].rank_v = 0; },
         "plan.layers[3].rank_v: 0 is under 1; this bundle's largest is 8");
  expect([](LayerPlan& p) { p.layers[3].rank_h = 8; },
         "plan.layers[3].rank_h: 8 given, but this layer's treatment has no such codes");
  expect([](LayerPlan& p) { p.layers[1].rank_k = 1; },
         "plan.layers[1].rank_k: 1 given, but this layer's treatment has no such codes");
  expect([](LayerPlan& p) { p.layers[1].rank_h = 12; },
         "plan.layers[1].rank_h: 12 is not among the ranks that this bundle was fitted for: 8, 16");
  expect([](LayerPlan& p) { p.layers[0] = {.treatment = LayerTreatment::kPatch, .rank_h = 8}; },
         "plan.layers[0]: layer 0 is none that this bundle can patch: 1, 2");
  expect([](LayerPlan& p) { p.native_head = -1; }, "plan.native_head: -1 is outside [0, 1048576]");
  expect([](LayerPlan& p) { p.codec = static_cast<Codec>(0); },
         "plan.codec: 0 is not among the codecs: bf16, f32, int8, int4, entropy");
  expect([](LayerPlan& p) { p.layers[3].residual = 64; },
         "plan.layers[3].residual: 64 given, but this layer's treatment has no such codes");
  expect([](LayerPlan& p) { p.layers[1].residual = 64; },
         "plan.layers[1].residual: 64 given, but this layer's treatment has no such codes");
  expect([](LayerPlan& p) { p.layers[2].treatment = static_cast<LayerTreatment>(77); },
         "plan.layers[2]: is treated in a way that does not mix with layer 0's: codes with codes, raw state "
         "before RoPE with recomputed layers, raw roped state with nothing else");
  expect([](LayerPlan& p) { p.layers[0].treatment = static_cast<LayerTreatment>(77); },
         "plan.layers[0]: 77 is no treatment of a layer");
  // Ranks may differ from layer to layer.
  LayerPlan mixed = *resolved;
  mixed.layers[0].rank_k = 1;
  EXPECT_TRUE(bundle_->CheckPlan(mixed).ok());
}

constexpr LayerRanks kFused{.treatment = LayerTreatment::kFused, .rank_kv = 10};

TEST_F(BundlePlanTest, FusedPlansSendAllThatWasFittedEntropyCoded) {
  const auto plan = bundle_->ResolvePlan({.form = StateForm::kFused, .native_tail = 5});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->layers, ElementsAre(kFused, kFused, kFused, kFused));
  EXPECT_EQ(plan->native_tail, 5);
  EXPECT_EQ(plan->ToString(),
            "fused 4 layers in 4 groups at KV 10, native head 1, tail 5, entropy at rate point 0");
  EXPECT_TRUE(bundle_->CheckPlan(*plan).ok());
  for (const Codec codec : kAllCodecs) {
    const auto asked = bundle_->ResolvePlan({.form = StateForm::kFused, .codec = codec});
    ASSERT_TRUE(asked.ok()) << asked.status();
    EXPECT_EQ(asked->codec, codec);
    EXPECT_TRUE(bundle_->CheckPlan(*asked).ok());
  }
}

TEST_F(BundlePlanTest, GroupsOfFusedLayersAreWholeAndSendWithTheirLast) {
  testing::TinyBundleOptions options;
  options.fused = {.rank = 20, .group = 3};
  bundle_ = Write(options);  // layers 0 to 2, and 3
  ASSERT_NE(bundle_, nullptr);
  const auto plan = bundle_->ResolvePlan({.form = StateForm::kFused, .codec = Codec::kBF16});
  ASSERT_TRUE(plan.ok()) << plan.status();
  constexpr LayerRanks kNone{.treatment = LayerTreatment::kFused};
  constexpr LayerRanks kLast{.treatment = LayerTreatment::kFused, .rank_kv = 20};
  constexpr LayerRanks kReuse{.treatment = LayerTreatment::kReuse, .rank_k = 1, .rank_v = 1};
  EXPECT_THAT(plan->layers, ElementsAre(kNone, kNone, kLast, kLast));
  EXPECT_TRUE(bundle_->CheckPlan(*plan).ok());
  const auto check = [&](std::vector<LayerRanks> layers) {
    return bundle_->CheckPlan({.layers = std::move(layers)});
  };
  EXPECT_TRUE(check({kNone, kNone, kLast, kReuse}).ok());
  EXPECT_TRUE(check({kReuse, kReuse, kReuse, kLast}).ok());
  ExpectRefused(check({kNone, kLast, kLast, kLast}),
                "plan.layers[1].rank_kv: 20 given, but the code of this layer's group comes with layer 2");
  ExpectRefused(check({kNone, kNone, kNone, kLast}),
                "plan.layers[2].rank_kv: 0 given, but this layer sends all 20 columns");
  ExpectRefused(check({kNone, kReuse, kLast, kLast}),
                "plan.layers[0]: is fused, but layer 1 of its group, 0 to 2, is not");
  ExpectRefused(check({kReuse, kNone, kLast, kLast}),
                "plan.layers[1]: is fused, but layer 0 of its group, 0 to 2, is not");
}

TEST_F(BundlePlanTest, OfFusedLayersOnlyCodecAndDistortionCanBeAsked) {
  const std::string end = ": given, but a plan of fused codes has no such choice";
  constexpr auto kForm = StateForm::kFused;
  ExpectRefused({.form = kForm, .rank_k = 5}, "plan.rank_k" + end);
  ExpectRefused({.form = kForm, .rank_v = 5}, "plan.rank_v" + end);
  ExpectRefused({.form = kForm, .rank_h = 8}, "plan.rank_h" + end);
  ExpectRefused({.form = kForm, .patch_layers = std::vector<std::int64_t>{}}, "plan.patch_layers" + end);
  ExpectRefused({.form = kForm, .recompute_layers = LayerRange{1, 2}}, "plan.recompute_layers" + end);
}

// The tiny bundle has tables for 0.0001, its default, and 0.01.
TEST_F(BundlePlanTest, ADistortionNamesARatePoint) {
  for (const StateForm form : {StateForm::kCodes, StateForm::kFused}) {
    const auto point = [&](std::optional<double> distortion) {
      const auto plan =
          bundle_->ResolvePlan({.form = form, .codec = Codec::kEntropy, .distortion = distortion});
      EXPECT_TRUE(plan.ok()) << plan.status();
      EXPECT_TRUE(bundle_->CheckPlan(*plan).ok());
      return plan->rate_point;
    };
    EXPECT_EQ(point(std::nullopt), 0);
    EXPECT_EQ(point(0.0001), 0);
    EXPECT_EQ(point(0.01), 1);
    EXPECT_EQ(point(0.01 * (1 + 4e-6)), 1);  // as it comes out of a text
    for (const double other : {0.005, 0.0, -0.01, 1e300, std::nan("")}) {
      const absl::Status status =
          bundle_->ResolvePlan({.form = form, .codec = Codec::kEntropy, .distortion = other}).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()),
                  AllOf(StartsWith("plan.distortion: "),
                        HasSubstr(" is not among those of this bundle: 0.0001, 0.01")));
    }
  }
  EXPECT_EQ(bundle_->ResolvePlan({.form = StateForm::kFused, .distortion = 0.01})->rate_point, 1);
  ExpectRefused({.distortion = 0.01}, "plan.distortion: given, but codec bf16 has none; entropy has");
  ExpectRefused({.form = StateForm::kFused, .codec = Codec::kInt8, .distortion = 0.01},
                "plan.distortion: given, but codec int8 has none; entropy has");
  ExpectRefused({.form = StateForm::kRaw, .distortion = 0.01},
                "plan.distortion: given, but a plan of raw state has no such choice");
}

TEST_F(BundlePlanTest, TheDefaultRatePointIsTheBundles) {
  BundleManifest manifest = bundle_->manifest();
  manifest.default_rate_point = 1;
  const testing::BundleTensorValues values(manifest, false, 1);
  ASSERT_TRUE(WriteBundle(dir_.File("other"), manifest, values.Named()).ok());
  const auto other = Bundle::Open(dir_.File("other"));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*other)->ResolvePlan({.form = StateForm::kFused})->rate_point, 1);
  EXPECT_EQ((*other)->ResolvePlan({.codec = Codec::kEntropy})->rate_point, 1);
  EXPECT_EQ((*other)->ResolvePlan({.form = StateForm::kFused, .codec = Codec::kBF16})->rate_point, 0);
}

TEST_F(BundlePlanTest, WithoutFusedTranslatorsOrTablesThereAreNone) {
  testing::TinyBundleOptions options;
  options.distortions.clear();
  bundle_ = Write(options);
  ASSERT_NE(bundle_, nullptr);
  const auto plan = bundle_->ResolvePlan({.form = StateForm::kFused});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->codec, Codec::kBF16);
  const std::string no_tables =
      "plan.codec: this bundle has no tables for entropy: fit it again with entropy.distortions";
  ExpectRefused({.form = StateForm::kFused, .codec = Codec::kEntropy}, no_tables);
  ExpectRefused({.codec = Codec::kEntropy}, no_tables);
  LayerPlan wire = *plan;
  wire.codec = Codec::kEntropy;
  ExpectRefused(bundle_->CheckPlan(wire), no_tables);

  options.fused = FusedShape();
  bundle_ = Write(options);
  ASSERT_NE(bundle_, nullptr);
  ExpectRefused({.form = StateForm::kFused},
                "mode: fused: this bundle has no such translators: fit it again with fused.rank");
  ExpectRefused(bundle_->CheckPlan(*plan), "plan.layers[0]: this bundle has no Fused translators");
}

TEST_F(BundlePlanTest, FusedAndEntropyPlansFromTheWireAreChecked) {
  const auto expect = [&](std::vector<LayerRanks> layers, Codec codec, std::int64_t rate_point,
                          const std::string& message) {
    const LayerPlan plan{.layers = std::move(layers), .codec = codec, .rate_point = rate_point};
    ExpectRefused(bundle_->CheckPlan(plan), message);
  };
  constexpr LayerRanks kReuse{.treatment = LayerTreatment::kReuse, .rank_k = 1, .rank_v = 1};
  for (const std::int64_t rank : {0, 9, 11, -1}) {
    LayerRanks odd = kFused;
    odd.rank_kv = rank;
    expect({kFused, odd, kFused, kFused}, Codec::kBF16, 0,
           "plan.layers[1].rank_kv: " + std::to_string(rank) + " given, but this layer sends all 10 columns");
  }
  const std::string unused = ": 1 given, but this layer's treatment has no such codes";
  for (const auto& [member, name] : {std::pair{&LayerRanks::rank_k, "rank_k"},
                                     {&LayerRanks::rank_v, "rank_v"},
                                     {&LayerRanks::rank_h, "rank_h"},
                                     {&LayerRanks::residual, "residual"}}) {
    LayerRanks odd = kFused;
    odd.*member = 1;
    expect({kFused, kFused, odd, kFused}, Codec::kBF16, 0, "plan.layers[2]." + std::string(name) + unused);
  }
  LayerRanks group_goes_on{.treatment = LayerTreatment::kRecompute, .rank_kv = 1};
  const LayerRanks group_begins{.treatment = LayerTreatment::kRecompute, .residual = 64};
  const LayerRanks raw{.treatment = LayerTreatment::kRaw, .rank_k = 16, .rank_v = 16};
  expect({raw, group_begins, group_goes_on, raw}, Codec::kBF16, 0, "plan.layers[2].rank_kv" + unused);
  for (LayerRanks other : {kReuse, LayerRanks{.treatment = LayerTreatment::kPatch, .rank_h = 8}, raw,
                           LayerRanks{.treatment = LayerTreatment::kRawRoped, .rank_k = 16, .rank_v = 16}}) {
    other.rank_kv = 1;
    std::vector<LayerRanks> layers(4, other.treatment == LayerTreatment::kPatch ? kReuse : other);
    layers[0].rank_kv = 0;
    layers[1] = other;
    expect(layers, Codec::kBF16, 0, "plan.layers[1].rank_kv" + unused);
  }
  // Fused layers stand beside those of Reuse and Patch, and of nothing else.
  for (const Codec codec : kAllCodecs) {
    EXPECT_TRUE(bundle_->CheckPlan({.layers = {kFused, kReuse, kFused, kReuse}, .codec = codec}).ok());
  }
  expect({kFused, raw, kFused, kFused}, Codec::kBF16, 0,
         "plan.layers[1]: is treated in a way that does not mix with layer 0's: codes with codes, raw state "
         "before RoPE with recomputed layers, raw roped state with nothing else");

  const std::vector<LayerRanks> fused(4, kFused);
  expect(fused, Codec::kEntropy, 2, "plan.rate_point: 2 is outside [0, 1]");
  expect(fused, Codec::kEntropy, -1, "plan.rate_point: -1 is outside [0, 1]");
  expect(fused, Codec::kBF16, 1, "plan.rate_point: 1 given, but codec bf16 has no rate points");
  expect(fused, Codec::kInt4, -1, "plan.rate_point: -1 given, but codec int4 has no rate points");
  EXPECT_TRUE(bundle_->CheckPlan({.layers = fused, .codec = Codec::kEntropy, .rate_point = 1}).ok());
}

TEST_F(BundlePlanTest, RawStateIsNotEntropyCoded) {
  const std::string message =
      "plan.codec: entropy codes what translators make; raw state goes in bf16, f32, int8 or int4";
  for (const StateForm form : {StateForm::kRaw, StateForm::kRawRoped, StateForm::kSelective}) {
    ExpectRefused({.form = form, .codec = Codec::kEntropy}, message);
    auto plan = bundle_->ResolvePlan({.form = form});
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan->codec = Codec::kEntropy;
    ExpectRefused(bundle_->CheckPlan(*plan), message);
  }
}

// One granule of the largest rank fits into a frame whatever its numbers.
TEST_F(BundlePlanTest, RanksOfWhichAGranuleMayNotFitIntoAFrameAreNotEntropyCoded) {
  ModelConfig wide = testing::TinyConfig();
  wide.num_layers = 1;
  wide.num_kv_heads = 1;
  wide.head_dim = kMaxEntropyRank + 1;
  testing::TinyBundleOptions options;
  options.max_rank_k = options.default_rank_k = kMaxEntropyRank + 1;
  options.candidate_layers.clear();
  options.default_patch_layers.clear();
  options.fused = FusedShape();
  options.distortions = {0.01};
  const BundleManifest manifest =
      testing::TinyManifest(wide, testing::MadeUpModel("a"), testing::MadeUpModel("b"), options);
  const testing::BundleTensorValues values(manifest, true, 1);
  ASSERT_TRUE(WriteBundle(dir_.File("wide"), manifest, values.Named()).ok());
  bundle_ = *Bundle::Open(dir_.File("wide"));
  ExpectRefused({.codec = Codec::kEntropy}, "plan.codec: entropy takes ranks of at most 4096, not 4097");
  EXPECT_TRUE(bundle_->ResolvePlan({.rank_k = kMaxEntropyRank, .codec = Codec::kEntropy}).ok());
  EXPECT_TRUE(bundle_->ResolvePlan({.codec = Codec::kBF16}).ok());
}

constexpr LayerRanks kRaw{.treatment = LayerTreatment::kRaw, .rank_k = 16, .rank_v = 16};
constexpr LayerRanks kRawRoped{.treatment = LayerTreatment::kRawRoped, .rank_k = 16, .rank_v = 16};
constexpr LayerRanks kGroupBegins{.treatment = LayerTreatment::kRecompute, .residual = 64};
constexpr LayerRanks kGroupGoesOn{.treatment = LayerTreatment::kRecompute};

TEST_F(BundlePlanTest, RawFormsSendEveryColumn) {
  for (const auto& [form, layer] : {std::pair{StateForm::kRaw, kRaw}, {StateForm::kRawRoped, kRawRoped}}) {
    for (const Codec codec : {Codec::kBF16, Codec::kF32, Codec::kInt8, Codec::kInt4}) {
      const auto plan = bundle_->ResolvePlan({.form = form, .native_tail = 5, .codec = codec});
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_THAT(plan->layers, ElementsAre(layer, layer, layer, layer));
      EXPECT_EQ(plan->native_head, 1);
      EXPECT_EQ(plan->native_tail, 5);
      EXPECT_EQ(plan->codec, codec);
      EXPECT_EQ(plan->recomputed(), std::nullopt);
      EXPECT_TRUE(bundle_->CheckPlan(*plan).ok());
    }
  }
}

TEST_F(BundlePlanTest, SelectiveRecomputesTheBundlesGroupOrTheOneThatIsAsked) {
  const auto plan = bundle_->ResolvePlan({.form = StateForm::kSelective});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->layers, ElementsAre(kRaw, kGroupBegins, kGroupGoesOn, kRaw));
  EXPECT_EQ(plan->code_bytes_per_token(), 2 * (2 * 32 + 64));
  EXPECT_TRUE(bundle_->CheckPlan(*plan).ok());

  const auto resolve = [&](std::int64_t first, std::int64_t last) {
    auto asked = bundle_->ResolvePlan(
        {.form = StateForm::kSelective, .recompute_layers = LayerRange{first, last}, .codec = Codec::kInt4});
    EXPECT_TRUE(asked.ok()) << asked.status();
    EXPECT_TRUE(bundle_->CheckPlan(*asked).ok());
    EXPECT_EQ(asked->recomputed(), (LayerRange{first, last}));
    return asked->layers;
  };
  EXPECT_THAT(resolve(3, 3), ElementsAre(kRaw, kRaw, kRaw, kGroupBegins));
  EXPECT_THAT(resolve(0, 1), ElementsAre(kGroupBegins, kGroupGoesOn, kRaw, kRaw));
  EXPECT_THAT(resolve(0, 3), ElementsAre(kGroupBegins, kGroupGoesOn, kGroupGoesOn, kGroupGoesOn));
}

TEST_F(BundlePlanTest, WhatAFormHasNoUseForIsRefused) {
  for (const auto& [form, name] : {std::pair{StateForm::kRaw, "raw state"},
                                   {StateForm::kRawRoped, "raw roped state"},
                                   {StateForm::kSelective, "selective recomputation"}}) {
    const std::string end = std::string(": given, but a plan of ") + name + " has no such choice";
    ExpectRefused({.form = form, .rank_k = 5}, "plan.rank_k" + end);
    ExpectRefused({.form = form, .rank_v = 5}, "plan.rank_v" + end);
    ExpectRefused({.form = form, .rank_h = 8}, "plan.rank_h" + end);
    ExpectRefused({.form = form, .patch_layers = std::vector<std::int64_t>{}}, "plan.patch_layers" + end);
    if (form == StateForm::kSelective) continue;
    ExpectRefused({.form = form, .recompute_layers = LayerRange{1, 2}}, "plan.recompute_layers" + end);
  }
  const auto group = [](std::int64_t first, std::int64_t last) {
    return PlanRequest{.form = StateForm::kSelective, .recompute_layers = LayerRange{first, last}};
  };
  ExpectRefused(group(1, 4), "plan.recompute_layers: 1 to 4 is no range of layers among 0 to 3");
  ExpectRefused(group(-1, 2), "plan.recompute_layers: -1 to 2 is no range of layers among 0 to 3");
  ExpectRefused(group(3, 2), "plan.recompute_layers: 3 to 2 is no range of layers among 0 to 3");
  ExpectRefused({.form = StateForm::kRaw, .native_head = -1}, "plan.native_head: -1 is outside [0, 1048576]");
  ExpectRefused({.form = StateForm::kRaw, .codec = static_cast<Codec>(6)},
                "plan.codec: 6 is not among the codecs: bf16, f32, int8, int4, entropy");
}

TEST_F(BundlePlanTest, WithoutAProfileTheLayersHaveToBeNamed) {
  testing::TinyBundleOptions options;
  options.default_recompute.reset();
  bundle_ = Write(options);
  ASSERT_NE(bundle_, nullptr);
  ExpectRefused(
      {.form = StateForm::kSelective},
      "plan.recompute_layers: not given, and this bundle holds no selective profile: name the first "
      "and last layer, or fit the bundle again with selective.profile: true");
  EXPECT_TRUE(
      bundle_->ResolvePlan({.form = StateForm::kSelective, .recompute_layers = LayerRange{2, 3}}).ok());
}

TEST_F(BundlePlanTest, RawAndSelectivePlansFromTheWireAreChecked) {
  const auto expect = [&](std::vector<LayerRanks> layers, const std::string& message) {
    const LayerPlan plan{.layers = std::move(layers)};
    ExpectRefused(bundle_->CheckPlan(plan), message);
  };
  constexpr LayerRanks kReuse{.treatment = LayerTreatment::kReuse, .rank_k = 1, .rank_v = 1};
  LayerRanks odd = kRaw;
  odd.rank_k = 15;
  expect({kRaw, odd, kRaw, kRaw}, "plan.layers[1].rank_k: 15 given, but this layer sends all 16 columns");
  odd = kRawRoped;
  odd.rank_v = 17;
  expect({odd, kRawRoped, kRawRoped, kRawRoped},
         "plan.layers[0].rank_v: 17 given, but this layer sends all 16 columns");
  odd = kRaw;
  odd.rank_h = 8;
  expect({kRaw, odd, kRaw, kRaw},
         "plan.layers[1].rank_h: 8 given, but this layer's treatment has no such codes");
  odd = kRaw;
  odd.residual = 64;
  expect({kRaw, odd, kRaw, kRaw},
         "plan.layers[1].residual: 64 given, but this layer's treatment has no such codes");

  const std::string mix =
      ": is treated in a way that does not mix with layer 0's: codes with codes, raw state before RoPE with "
      "recomputed layers, raw roped state with nothing else";
  expect({kRaw, kReuse, kRaw, kRaw}, "plan.layers[1]" + mix);
  expect({kReuse, kReuse, kReuse, kRaw}, "plan.layers[3]" + mix);
  expect({kReuse, kGroupBegins, kReuse, kReuse}, "plan.layers[1]" + mix);
  expect({kGroupBegins, kReuse, kReuse, kReuse}, "plan.layers[1]" + mix);
  expect({kRaw, kRawRoped, kRaw, kRaw}, "plan.layers[1]" + mix);
  expect({kRawRoped, kRawRoped, kGroupBegins, kRawRoped}, "plan.layers[2]" + mix);
  expect({kGroupBegins, kGroupGoesOn, kRawRoped, kRawRoped}, "plan.layers[2]" + mix);

  expect({kGroupBegins, kRaw, kGroupBegins, kRaw},
         "plan.layers[2]: begins a second group of recomputed layers; a plan has at most one");
  expect({kRaw, kGroupBegins, kGroupBegins, kRaw},
         "plan.layers[2].residual: 64 given, but this layer's treatment has no such codes");
  expect({kRaw, kGroupGoesOn, kGroupGoesOn, kRaw},
         "plan.layers[1].residual: 0 given, but this layer sends all 64 columns");
  odd = kGroupBegins;
  odd.residual = 63;
  expect({odd, kRaw, kRaw, kRaw}, "plan.layers[0].residual: 63 given, but this layer sends all 64 columns");
  odd = kGroupBegins;
  odd.rank_v = 16;
  expect({kRaw, odd, kRaw, kRaw},
         "plan.layers[1].rank_v: 16 given, but this layer's treatment has no such codes");
}

}  // namespace
}  // namespace scd
