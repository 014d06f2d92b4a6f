#include "common/config/transfer_modes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace scd {
namespace {

using ::testing::HasSubstr;

PlanRequest Server() {
  PlanRequest server;
  server.rank_k = 7;
  server.rank_v = 8;
  server.rank_h = 9;
  server.patch_layers = std::vector<std::int64_t>{3};
  server.recompute_layers = LayerRange{1, 2};
  server.native_head = 4;
  server.native_tail = 5;
  server.codec = Codec::kF32;
  server.distortion = 0.5;
  return server;
}

TEST(TransferModesTest, EveryModeTakesOfTheServersPlanWhatConcernsIt) {
  const PlanRequest scd = PlanRequestFor("scd", Server());
  EXPECT_EQ(scd.form, StateForm::kCodes);
  EXPECT_EQ(scd.rank_k, 7);
  EXPECT_EQ(scd.rank_h, 9);
  EXPECT_EQ(scd.patch_layers, std::vector<std::int64_t>{3});
  EXPECT_EQ(scd.codec, Codec::kF32);
  EXPECT_EQ(scd.distortion, 0.5);
  EXPECT_FALSE(scd.recompute_layers.has_value());

  const PlanRequest reuse = PlanRequestFor("reuse", Server());
  EXPECT_EQ(reuse.rank_v, 8);
  EXPECT_EQ(reuse.patch_layers, std::vector<std::int64_t>());
  EXPECT_FALSE(reuse.rank_h.has_value());
  EXPECT_EQ(reuse.distortion, 0.5);

  const PlanRequest fused = PlanRequestFor("fused", Server());
  EXPECT_EQ(fused.form, StateForm::kFused);
  EXPECT_EQ(fused.codec, Codec::kF32);
  EXPECT_EQ(fused.distortion, 0.5);
  EXPECT_EQ(fused.native_head, 4);
  EXPECT_EQ(fused.native_tail, 5);
  EXPECT_FALSE(fused.rank_k || fused.rank_v || fused.rank_h || fused.patch_layers || fused.recompute_layers);

  struct Rival {
    const char* mode;
    StateForm form;
    std::optional<Codec> codec;
  };
  for (const Rival& rival :
       {Rival{"raw", StateForm::kRawRoped, std::nullopt}, Rival{"raw_rerope", StateForm::kRaw, std::nullopt},
        Rival{"quantized", StateForm::kRawRoped, Codec::kInt4},
        Rival{"quantized_rerope", StateForm::kRaw, Codec::kInt4},
        Rival{"selective", StateForm::kSelective, std::nullopt}}) {
    const PlanRequest request = PlanRequestFor(rival.mode, Server());
    EXPECT_EQ(request.form, rival.form) << rival.mode;
    EXPECT_EQ(request.codec, rival.codec) << rival.mode;
    EXPECT_FALSE(request.rank_k || request.rank_v || request.rank_h || request.patch_layers) << rival.mode;
    EXPECT_FALSE(request.distortion.has_value()) << rival.mode;
    EXPECT_EQ(request.native_head, 4) << rival.mode;
    EXPECT_EQ(request.native_tail, 5) << rival.mode;
    EXPECT_EQ(request.recompute_layers.has_value(), rival.form == StateForm::kSelective) << rival.mode;
  }
}

TEST(TransferModesTest, ACodecThatHasNoDistortionTakesItAway) {
  const auto overlaid = [](const PlanRequest& over) {
    PlanRequest request = PlanRequestFor("fused", {.codec = Codec::kEntropy, .distortion = 0.5});
    Overlay(over, &request);
    return request;
  };
  EXPECT_EQ(overlaid({}).distortion, 0.5);
  EXPECT_EQ(overlaid({.distortion = 0.25}).distortion, 0.25);
  EXPECT_EQ(overlaid({.distortion = 0.25}).codec, Codec::kEntropy);
  EXPECT_EQ(overlaid({.codec = Codec::kEntropy}).distortion, 0.5);
  EXPECT_FALSE(overlaid({.codec = Codec::kBF16}).distortion.has_value());
  // scd and reuse are bf16 where nothing is said.
  for (const char* mode : {"scd", "reuse"}) {
    PlanRequest request = PlanRequestFor(mode, {.distortion = 0.5});
    PlanRequest coded = request;
    Overlay({}, &request);
    EXPECT_FALSE(request.distortion.has_value());
    Overlay({.codec = Codec::kEntropy}, &coded);
    EXPECT_EQ(coded.distortion, 0.5);
  }
  PlanRequest fused = PlanRequestFor("fused", {.distortion = 0.5});
  Overlay({}, &fused);
  EXPECT_EQ(fused.distortion, 0.5);
  // What a request itself says is left to be refused.
  EXPECT_EQ(overlaid({.codec = Codec::kBF16, .distortion = 0.25}).distortion, 0.25);
}

TEST(TransferModesTest, NamesAreAClosedList) {
  EXPECT_TRUE(IsModeName("local"));
  EXPECT_FALSE(IsModeName("Local"));
  EXPECT_FALSE(IsModeName(""));
  EXPECT_FALSE(IsModeName("auto"));
  EXPECT_TRUE(IsModeChoice("auto"));
  EXPECT_TRUE(IsModeChoice("fused"));
  EXPECT_FALSE(IsModeChoice("Auto"));
  EXPECT_EQ(ModeNamesText(),
            "expected one of auto, scd, reuse, fused, local, raw, raw_rerope, quantized, quantized_rerope, "
            "selective");
}

TEST(TransferModesTest, AutoIsFusedUnlessScdIsAskedFor) {
  EXPECT_EQ(ResolveMode("auto", /*has_fused=*/true, {}), "fused");
  EXPECT_EQ(ResolveMode("auto", /*has_fused=*/false, {}), "scd");
  EXPECT_EQ(ResolveMode("auto", true, {.native_tail = 4, .codec = Codec::kBF16}), "fused");
  EXPECT_EQ(ResolveMode("auto", true, {.rank_k = 8}), "scd");
  EXPECT_EQ(ResolveMode("auto", true, {.rank_v = 8}), "scd");
  EXPECT_EQ(ResolveMode("auto", true, {.rank_h = 8}), "scd");
  EXPECT_EQ(ResolveMode("auto", true, {.patch_layers = std::vector<std::int64_t>{}}), "scd");
  EXPECT_EQ(ResolveMode("reuse", true, {.rank_h = 8}), "reuse");
}

TEST(TransferModesTest, RequestsThatContradictTheirModeAreRefused) {
  const auto check = [](std::string_view mode, const std::function<void(PlanRequest&)>& change) {
    PlanRequest request = PlanRequestFor(mode, {});
    change(request);
    return CheckModeRequest(mode, request);
  };
  EXPECT_THAT(std::string(check("reuse", [](auto& r) { r.patch_layers = {3}; }).message()),
              HasSubstr("plan.patch_layers: mode reuse"));
  EXPECT_THAT(std::string(check("quantized", [](auto& r) { r.codec = Codec::kBF16; }).message()),
              HasSubstr("plan.codec: mode quantized sends int4 or int8"));
  EXPECT_THAT(std::string(check("raw_rerope", [](auto& r) { r.codec = Codec::kInt8; }).message()),
              HasSubstr("plan.codec: mode raw_rerope sends bf16 or f32"));
  EXPECT_TRUE(check("quantized", [](auto& r) { r.codec = Codec::kInt8; }).ok());
  for (const char* mode : {"scd", "reuse", "fused"}) {
    for (const Codec codec : kAllCodecs) EXPECT_TRUE(check(mode, [codec](auto& r) { r.codec = codec; }).ok());
  }
  for (const char* mode : {"raw", "raw_rerope", "selective"}) {
    EXPECT_THAT(std::string(check(mode, [](auto& r) { r.codec = Codec::kEntropy; }).message()),
                HasSubstr("sends bf16 or f32"));
  }
  EXPECT_THAT(std::string(check("quantized", [](auto& r) { r.codec = Codec::kEntropy; }).message()),
              HasSubstr("sends int4 or int8"));
  EXPECT_TRUE(check("reuse", [](auto& r) { r.patch_layers.emplace(); }).ok());
}

}  // namespace
}  // namespace scd
