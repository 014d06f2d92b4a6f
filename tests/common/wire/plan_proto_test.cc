#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "common/wire/frame_codec.h"

namespace scd {
namespace {

LayerPlan Plan() {
  LayerPlan plan;
  plan.layers = {{.treatment = LayerTreatment::kReuse, .rank_k = 96, .rank_v = 128},
                 {.treatment = LayerTreatment::kPatch, .rank_h = 576},
                 {.treatment = LayerTreatment::kReuse, .rank_k = 1, .rank_v = kMaxCodeRank}};
  return plan;
}

LayerPlan RivalsPlan() {
  LayerPlan plan;
  plan.layers = {{.treatment = LayerTreatment::kRaw, .rank_k = 192, .rank_v = 192},
                 {.treatment = LayerTreatment::kRecompute, .residual = 576},
                 {.treatment = LayerTreatment::kRecompute},
                 {.treatment = LayerTreatment::kRawRoped, .rank_k = 192, .rank_v = 192}};
  return plan;
}

TEST(PlanProtoTest, APlanComesBackWithoutNativeRanges) {
  for (const Codec codec : {Codec::kBF16, Codec::kF32, Codec::kInt8, Codec::kInt4, Codec::kEntropy}) {
    LayerPlan sent = Plan();
    sent.codec = codec;
    const auto received = PlanFromProto(PlanToProto(sent));
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_EQ(*received, sent);
    sent.native_head = 9;
    sent.native_tail = 9;
    EXPECT_EQ(PlanFromProto(PlanToProto(sent))->native_head, LayerPlan().native_head);
  }
}

TEST(PlanProtoTest, EveryTreatmentComesBack) {
  const auto received = PlanFromProto(PlanToProto(RivalsPlan()));
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->layers, RivalsPlan().layers);
  const auto expect = [](int layer, const std::function<void(v1::LayerRanks&)>& change,
                         const std::string& message) {
    v1::Plan plan = PlanToProto(RivalsPlan());
    change(*plan.mutable_layers(layer));
    EXPECT_EQ(PlanFromProto(plan).status().message(), message);
  };
  expect(
      0, [](auto& l) { l.set_rank_v(0); }, "plan.layers[0].rank_v: 0 is outside [1, 29127]");
  expect(
      0, [](auto& l) { l.set_residual(1); }, "plan.layers[0].residual: 1 is outside [0, 0]");
  expect(
      1, [](auto& l) { l.set_rank_k(1); }, "plan.layers[1].rank_k: 1 is outside [0, 0]");
  expect(
      1, [](auto& l) { l.set_residual(1 << 20); }, "plan.layers[1].residual: 1048576 is outside [0, 29127]");
}

TEST(PlanProtoTest, FusedPlansComeBackWithTheirRatePoint) {
  LayerPlan sent;
  sent.layers = {{.treatment = LayerTreatment::kFused, .rank_kv = 384},
                 {.treatment = LayerTreatment::kReuse, .rank_k = 3, .rank_v = 4}};
  sent.codec = Codec::kEntropy;
  sent.rate_point = 5;
  const auto received = PlanFromProto(PlanToProto(sent));
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(*received, sent);

  const auto expect = [&sent](const std::function<void(v1::Plan&)>& change, const std::string& message) {
    v1::Plan plan = PlanToProto(sent);
    change(plan);
    const absl::Status status = PlanFromProto(plan).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
  };
  expect([](auto& p) { p.mutable_layers(0)->set_rank_kv(0xFFFFFFFF); },
         "plan.layers[0].rank_kv: 4294967295 is outside [0, 29127]");
  expect([](auto& p) { p.mutable_layers(0)->set_rank_k(1); }, "plan.layers[0].rank_k: 1 is outside [0, 0]");
  expect([](auto& p) { p.mutable_layers(0)->set_rank_h(1); }, "plan.layers[0].rank_h: 1 is outside [0, 0]");
  expect([](auto& p) { p.mutable_layers(0)->set_residual(1); },
         "plan.layers[0].residual: 1 is outside [0, 0]");
  expect([](auto& p) { p.mutable_layers(1)->set_rank_kv(1); }, "plan.layers[1].rank_kv: 1 is outside [0, 0]");
  // No bundle has that many rate points; Bundle::CheckPlan says so.
  v1::Plan far = PlanToProto(sent);
  far.set_rate_point(0xFFFFFFFF);
  EXPECT_EQ(PlanFromProto(far)->rate_point, 0xFFFFFFFF);
}

TEST(PlanProtoTest, WhatNoBundleCouldServeIsRefusedWithTheField) {
  const auto expect = [](const std::function<void(v1::Plan&)>& change, const std::string& message) {
    v1::Plan plan = PlanToProto(Plan());
    change(plan);
    const absl::Status status = PlanFromProto(plan).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
  };
  expect([](auto& p) { p.clear_layers(); }, "plan.layers: number of entries: 0 is outside [1, 1024]");
  expect(
      [](auto& p) {
        while (p.layers_size() <= kMaxPlanLayers) *p.add_layers() = p.layers(0);
      },
      "plan.layers: number of entries: 1025 is outside [1, 1024]");
  expect([](auto& p) { p.mutable_layers(1)->clear_treatment(); },
         "plan.layers[1].treatment: 0 is none that this program knows");
  expect([](auto& p) { p.mutable_layers(1)->set_treatment(static_cast<v1::Treatment>(7)); },
         "plan.layers[1].treatment: 7 is none that this program knows");
  expect([](auto& p) { p.mutable_layers(0)->set_rank_k(0); },
         "plan.layers[0].rank_k: 0 is outside [1, 29127]");
  expect([](auto& p) { p.mutable_layers(0)->set_rank_v(0xFFFFFFFF); },
         "plan.layers[0].rank_v: 4294967295 is outside [1, 29127]");
  expect([](auto& p) { p.mutable_layers(0)->set_rank_h(8); }, "plan.layers[0].rank_h: 8 is outside [0, 0]");
  expect([](auto& p) { p.mutable_layers(1)->set_rank_k(8); }, "plan.layers[1].rank_k: 8 is outside [0, 0]");
  expect([](auto& p) { p.mutable_layers(1)->set_rank_h(0); },
         "plan.layers[1].rank_h: 0 is outside [1, 29127]");
  expect([](auto& p) { p.clear_codec(); }, "plan.codec: 0 is none that this program knows");
  expect([](auto& p) { p.set_codec(static_cast<v1::Codec>(-5)); },
         "plan.codec: -5 is none that this program knows");
}

}  // namespace
}  // namespace scd
