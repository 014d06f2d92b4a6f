#include "common/config/layer_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

LayerRanks Reuse(std::int64_t k, std::int64_t v) {
  return {.treatment = LayerTreatment::kReuse, .rank_k = k, .rank_v = v};
}
LayerRanks Patch(std::int64_t h) {
  return {.treatment = LayerTreatment::kPatch, .rank_h = h};
}

TEST(LayerPlanTest, CountsCodesOfTheKindsThatAreSent) {
  LayerPlan plan;
  plan.layers = {Reuse(96, 128), Patch(576), Reuse(96, 128)};
  EXPECT_EQ(plan.code_bytes_per_token(), 2 * (96 + 128 + 576 + 96 + 128));
  plan.codec = Codec::kF32;
  EXPECT_EQ(plan.code_bytes_per_token(), 4 * (96 + 128 + 576 + 96 + 128));
  EXPECT_EQ(LayerPlan().code_bytes_per_token(), 0);
}

TEST(LayerPlanTest, ReferencePlanMatchesTheBytesOfThePaperMethod) {
  LayerPlan plan;
  plan.layers.assign(30, Reuse(96, 128));
  EXPECT_EQ(plan.code_bytes_per_token(), 13440);
  for (const std::size_t layer : {18, 19, 20, 23, 24, 26}) plan.layers[layer] = Patch(576);
  EXPECT_EQ(plan.code_bytes_per_token(), 17664);
  EXPECT_THAT(plan.patch_layers(), ElementsAre(18, 19, 20, 23, 24, 26));
}

TEST(LayerPlanTest, CountsTheRivals) {
  LayerPlan plan;
  plan.layers.assign(30, {.treatment = LayerTreatment::kRaw, .rank_k = 192, .rank_v = 192});
  EXPECT_EQ(plan.code_bytes_per_token(), 23040);
  plan.codec = Codec::kInt4;  // 4 bits and 32 for each group of 32
  EXPECT_EQ(plan.code_bytes_per_token(), 7200);
  plan.codec = Codec::kInt8;
  EXPECT_EQ(plan.code_bytes_per_token(), 12960);
  plan.codec = Codec::kBF16;
  for (std::size_t layer = 18; layer <= 24; ++layer)
    plan.layers[layer] = {.treatment = LayerTreatment::kRecompute};
  plan.layers[18].residual = 576;
  EXPECT_EQ(plan.code_bytes_per_token(), 18816);
  EXPECT_EQ(plan.recomputed(), (LayerRange{18, 24}));
  EXPECT_EQ(plan.ToString(), "raw 23 layers, recompute layers 18 to 24, native head 1, tail 16, bf16");
}

TEST(LayerPlanTest, SaysWhatItIs) {
  LayerPlan plan;
  plan.layers = {Reuse(96, 128), Patch(576), Reuse(96, 64), Patch(384), Reuse(96, 64)};
  EXPECT_EQ(
      plan.ToString(),
      "reuse 3 layers at K 96 / V 64-128, patch 2 layers [1 3] at H 384-576, native head 1, tail 16, bf16");
  plan.layers = {Reuse(8, 4)};
  plan.native_head = 0;
  plan.native_tail = 3;
  plan.codec = Codec::kF32;
  EXPECT_EQ(plan.ToString(), "reuse 1 layer at K 8 / V 4, native head 0, tail 3, f32");
  EXPECT_THAT(plan.patch_layers(), IsEmpty());
  plan.layers = {Patch(8)};
  EXPECT_EQ(plan.ToString(), "patch 1 layer [0] at H 8, native head 0, tail 3, f32");
}

LayerRanks Fused(std::int64_t kv) {
  return {.treatment = LayerTreatment::kFused, .rank_kv = kv};
}

TEST(LayerPlanTest, FusedLayersSendOneCode) {
  LayerPlan plan;
  plan.layers = {Fused(384), Fused(384)};
  ASSERT_EQ(SentKinds(plan.layers[0]).size(), 1u);
  EXPECT_EQ(SentKinds(plan.layers[0])[0].kind, CodeKind::kKV);
  EXPECT_EQ(SentKinds(plan.layers[0])[0].rank, 384);
  EXPECT_EQ(plan.code_bytes_per_token(), 2 * 2 * 384);
  plan.codec = Codec::kInt8;  // groups of 32 columns
  EXPECT_EQ(plan.code_bytes_per_token(), 2 * (384 + 12 * 4));
  EXPECT_EQ(plan.ToString(), "fused 2 layers in 2 groups at KV 384, native head 1, tail 16, int8");
  plan.codec = Codec::kEntropy;
  plan.rate_point = 3;
  EXPECT_EQ(plan.ToString(),
            "fused 2 layers in 2 groups at KV 384, native head 1, tail 16, entropy at rate point 3");
}

TEST(LayerPlanTest, TheCodeOfAGroupComesWithItsLastLayer) {
  LayerPlan plan;
  plan.layers = {Fused(0), Fused(500), Reuse(4, 4), Fused(0), Fused(0), Fused(500), Fused(500)};
  EXPECT_TRUE(SentKinds(plan.layers[0]).empty());
  EXPECT_EQ(plan.code_bytes_per_token(), 2 * (3 * 500 + 8));
  EXPECT_EQ(plan.CodeLayers(1), (LayerRange{0, 1}));
  EXPECT_EQ(plan.CodeLayers(2), (LayerRange{2, 2}));
  EXPECT_EQ(plan.CodeLayers(5), (LayerRange{3, 5}));
  EXPECT_EQ(plan.CodeLayers(6), (LayerRange{6, 6}));
  EXPECT_EQ(plan.ToString(),
            "reuse 1 layer at K 4 / V 4, fused 6 layers in 3 groups at KV 500, native head 1, tail 16, bf16");
}

TEST(LayerPlanTest, ARatePointIsPartOfWhatIsSent) {
  LayerPlan plan{.layers = {Fused(8)}, .codec = Codec::kEntropy, .rate_point = 1};
  LayerPlan other = plan;
  other.native_head = 9;
  EXPECT_TRUE(plan.SendsAs(other));
  other.rate_point = 2;
  EXPECT_FALSE(plan.SendsAs(other));
  EXPECT_NE(plan, other);
  other = plan;
  other.layers = {Fused(7)};
  EXPECT_FALSE(plan.SendsAs(other));
}

TEST(LayerPlanTest, CodecsAreFoundByTheirNames) {
  for (const Codec codec : kAllCodecs) EXPECT_EQ(CodecByName(CodecName(codec)), codec);
  EXPECT_EQ(CodecByName("entropy"), Codec::kEntropy);
  EXPECT_FALSE(CodecByName("int3").has_value());
  EXPECT_FALSE(CodecByName("auto").has_value());
  EXPECT_FALSE(CodecByName("").has_value());
}

TEST(LayerPlanTest, KindsHaveNames) {
  EXPECT_EQ(CodeKindName(CodeKind::kK), "k");
  EXPECT_EQ(CodeKindName(CodeKind::kV), "v");
  EXPECT_EQ(CodeKindName(CodeKind::kH), "h");
  EXPECT_EQ(CodeKindName(CodeKind::kResidual), "residual");
  EXPECT_EQ(CodeKindName(CodeKind::kKV), "kv");
}

}  // namespace
}  // namespace scd
