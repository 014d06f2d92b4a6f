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
  return server;
}

TEST(TransferModesTest, EveryModeTakesOfTheServersPlanWhatConcernsIt) {
  const PlanRequest scd = PlanRequestFor("scd", Server());
  EXPECT_EQ(scd.form, StateForm::kCodes);
  EXPECT_EQ(scd.rank_k, 7);
  EXPECT_EQ(scd.rank_h, 9);
  EXPECT_EQ(scd.patch_layers, std::vector<std::int64_t>{3});
  EXPECT_EQ(scd.codec, Codec::kF32);
  EXPECT_FALSE(scd.recompute_layers.has_value());

  const PlanRequest reuse = PlanRequestFor("reuse", Server());
  EXPECT_EQ(reuse.rank_v, 8);
  EXPECT_EQ(reuse.patch_layers, std::vector<std::int64_t>());
  EXPECT_FALSE(reuse.rank_h.has_value());

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
    EXPECT_EQ(request.native_head, 4) << rival.mode;
    EXPECT_EQ(request.native_tail, 5) << rival.mode;
    EXPECT_EQ(request.recompute_layers.has_value(), rival.form == StateForm::kSelective) << rival.mode;
  }
}

TEST(TransferModesTest, NamesAreAClosedList) {
  EXPECT_TRUE(IsModeName("local"));
  EXPECT_FALSE(IsModeName("Local"));
  EXPECT_FALSE(IsModeName(""));
  EXPECT_EQ(ModeNamesText(),
            "expected one of scd, reuse, local, raw, raw_rerope, quantized, quantized_rerope, selective");
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
  EXPECT_TRUE(check("scd", [](auto& r) { r.codec = Codec::kInt4; }).ok());
  EXPECT_TRUE(check("reuse", [](auto& r) { r.patch_layers.emplace(); }).ok());
}

}  // namespace
}  // namespace scd
