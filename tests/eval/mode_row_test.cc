#include "eval/mode_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Names(const std::vector<ModeRow>& rows) {
  std::vector<std::string> names;
  for (const ModeRow& row : rows) names.push_back(row.name);
  return names;
}

TEST(DefaultRowsTest, AreThePapersTableTwice) {
  const std::vector<ModeRow> rows = DefaultRows();
  ASSERT_EQ(rows.size(), 19u);
  EXPECT_TRUE(rows[0].spec.is_local());
  std::set<std::pair<std::string, std::string>> names;
  for (const ModeRow& row : rows) {
    EXPECT_TRUE(names.insert({row.group, row.name}).second) << row.name;
    EXPECT_THAT(ContradictionIn(row.spec), IsEmpty()) << row.name;
    if (row.group == "equal") {
      EXPECT_EQ(row.spec.native_head, 1) << row.name;
      EXPECT_EQ(row.spec.native_tail, 16) << row.name;
    } else {
      EXPECT_EQ(row.spec.native_tail, 0) << row.name;
    }
  }
  // Every way is there as it was published and at equal ranges.
  for (std::size_t i = 1; i <= 9; ++i) {
    EXPECT_EQ(rows[i].name, rows[i + 9].name);
    EXPECT_EQ(rows[i].spec.mode, rows[i + 9].spec.mode);
    EXPECT_EQ(rows[i].spec.codec, rows[i + 9].spec.codec);
  }
  EXPECT_EQ(rows[9].spec.mode, "fused");
}

TEST(RepeatForCodecsTest, RepeatsWhatSendsFittedCodes) {
  std::vector<ModeRow> rows(4);
  rows[0] = {.name = "raw", .group = "g", .spec = {.mode = "raw"}};
  rows[1] = {.name = "reuse", .group = "g", .spec = {.mode = "reuse"}};
  rows[2] = {.name = "scd", .group = "g", .spec = {.mode = "scd"}};
  rows[3] = {.name = "fixed", .group = "g", .spec = {.mode = "scd", .codec = Codec::kInt4}};
  EXPECT_EQ(RepeatForCodecs(rows, {}), rows);
  const std::vector<ModeRow> repeated = RepeatForCodecs(rows, {Codec::kBF16, Codec::kInt8});
  EXPECT_THAT(Names(repeated), ElementsAre("raw", "reuse", "reuse, int8", "scd", "scd, int8", "fixed"));
  EXPECT_EQ(repeated[0].spec.codec, std::nullopt);
  EXPECT_EQ(repeated[1].spec.codec, Codec::kBF16);
  EXPECT_EQ(repeated[4].spec.codec, Codec::kInt8);
  EXPECT_EQ(repeated[5].spec.codec, Codec::kInt4);
}

TEST(RepeatForCodecsTest, TheModesOwnCodecKeepsTheName) {
  const std::vector<ModeRow> rows = {{.name = "scd", .group = "g", .spec = {.mode = "scd"}},
                                     {.name = "fused", .group = "g", .spec = {.mode = "fused"}}};
  const std::vector<ModeRow> repeated = RepeatForCodecs(rows, {Codec::kBF16, Codec::kEntropy});
  EXPECT_THAT(Names(repeated), ElementsAre("scd", "scd, entropy", "fused, bf16", "fused"));
  EXPECT_EQ(repeated[1].spec.codec, Codec::kEntropy);
  EXPECT_EQ(repeated[2].spec.codec, Codec::kBF16);
  EXPECT_EQ(repeated[3].spec.codec, Codec::kEntropy);
}

TEST(ContradictionTest, OfDistortionsAndFusedRows) {
  EXPECT_THAT(ContradictionIn({.mode = "fused", .distortion = 0.1}), IsEmpty());
  EXPECT_THAT(ContradictionIn({.mode = "scd", .codec = Codec::kEntropy, .distortion = 0.1}), IsEmpty());
  for (const TransferSpec& spec : {TransferSpec{.mode = "scd", .distortion = 0.1},
                                   {.mode = "raw", .distortion = 0.1},
                                   {.mode = "local", .distortion = 0.1},
                                   {.mode = "fused", .codec = Codec::kInt8, .distortion = 0.1}}) {
    EXPECT_EQ(ContradictionIn(spec), "distortion is for codec entropy") << spec.mode;
  }
  EXPECT_EQ(ContradictionIn({.mode = "fused", .rank_k = 8}), "rank_k and rank_v are for scd and reuse");
  EXPECT_EQ(ContradictionIn({.mode = "fused", .rank_h = 8}), "rank_h and patch_layers are for scd");
}

TEST(PlanRequestTest, FollowsTheMode) {
  EXPECT_EQ(PlanRequestOf({.mode = "raw"}).form, StateForm::kRawRoped);
  EXPECT_EQ(PlanRequestOf({.mode = "raw_rerope"}).form, StateForm::kRaw);
  EXPECT_EQ(PlanRequestOf({.mode = "raw"}).codec, Codec::kBF16);
  EXPECT_EQ(PlanRequestOf({.mode = "quantized"}).form, StateForm::kRawRoped);
  EXPECT_EQ(PlanRequestOf({.mode = "quantized_rerope"}).form, StateForm::kRaw);
  EXPECT_EQ(PlanRequestOf({.mode = "quantized"}).codec, Codec::kInt4);
  EXPECT_EQ(PlanRequestOf({.mode = "quantized", .codec = Codec::kInt8}).codec, Codec::kInt8);
  EXPECT_EQ(PlanRequestOf({.mode = "selective"}).form, StateForm::kSelective);
  EXPECT_EQ(PlanRequestOf({.mode = "fused"}).form, StateForm::kFused);
  EXPECT_EQ(PlanRequestOf({.mode = "fused"}).codec, std::nullopt);  // entropy where the bundle has tables
  EXPECT_EQ(PlanRequestOf({.mode = "fused", .distortion = 0.25}).distortion, 0.25);
  EXPECT_EQ(PlanRequestOf({.mode = "scd"}).form, StateForm::kCodes);
  EXPECT_EQ(PlanRequestOf({.mode = "scd"}).patch_layers, std::nullopt);
  ASSERT_TRUE(PlanRequestOf({.mode = "reuse"}).patch_layers.has_value());
  EXPECT_THAT(*PlanRequestOf({.mode = "reuse"}).patch_layers, IsEmpty());
}

}  // namespace
}  // namespace scd
