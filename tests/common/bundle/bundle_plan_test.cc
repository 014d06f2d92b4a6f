#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/bundle/bundle.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

using ::testing::ElementsAre;

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
  EXPECT_EQ(plan->layers[0], (LayerRanks{LayerTreatment::kReuse, 5, 7, 0}));
  EXPECT_EQ(plan->layers[1], (LayerRanks{LayerTreatment::kPatch, 0, 0, 16}));
  EXPECT_TRUE(bundle_->CheckPlan(*plan).ok());
}

TEST_F(BundlePlanTest, EveryFieldCanBeAsked) {
  const auto plan = bundle_->ResolvePlan({.rank_k = 6,
                                          .rank_v = 1,
                                          .rank_h = 8,
                                          .patch_layers = std::vector<std::int64_t>{1, 2},
                                          .native_head = 0,
                                          .native_tail = 9,
                                          .code_dtype = DType::kF32});
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
  ExpectRefused({.code_dtype = DType::kI8}, "plan.code_dtype: i8 is not among the types of codes: bf16, f32");
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
  expect([](LayerPlan& p) { p.code_dtype = DType::kF16; },
         "plan.code_dtype: f16 is not among the types of codes: bf16, f32");
  // Ranks may differ from layer to layer.
  LayerPlan mixed = *resolved;
  mixed.layers[0].rank_k = 1;
  EXPECT_TRUE(bundle_->CheckPlan(mixed).ok());
}

}  // namespace
}  // namespace scd
