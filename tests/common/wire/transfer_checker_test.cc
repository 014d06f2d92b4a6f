#include "common/wire/transfer_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "tests/common/wire/test_codes.h"

namespace scd {
namespace {

using ::testing::HasSubstr;
using testing::MakeCode;

// Layers: reuse at 4/6, patch at 8, reuse at 4/6; positions [10, 20).
LayerPlan Plan() {
  LayerPlan plan;
  const LayerRanks reuse{.treatment = LayerTreatment::kReuse, .rank_k = 4, .rank_v = 6};
  plan.layers = {reuse, {.treatment = LayerTreatment::kPatch, .rank_h = 8}, reuse};
  return plan;
}

std::int64_t RankOf(CodeKind kind) {
  return kind == CodeKind::kK ? 4 : kind == CodeKind::kV ? 6 : 8;
}

LayerCode Code(std::int64_t layer, CodeKind kind, std::int64_t first, std::int64_t count) {
  return MakeCode(layer, kind, first, count, RankOf(kind));
}

// All codes of the plan, each part in pieces of 3 tokens, in layer order.
std::vector<LayerCode> AllCodes() {
  std::vector<LayerCode> codes;
  for (const auto& [layer, kind] : std::vector<std::pair<std::int64_t, CodeKind>>{
           {0, CodeKind::kK}, {0, CodeKind::kV}, {1, CodeKind::kH}, {2, CodeKind::kK}, {2, CodeKind::kV}}) {
    for (std::int64_t at = 10; at < 20; at += 3)
      codes.push_back(Code(layer, kind, at, std::min<std::int64_t>(3, 20 - at)));
  }
  return codes;
}

class TransferCheckerTest : public ::testing::Test {
 protected:
  void ExpectRefused(const LayerCode& code, const std::string& message) {
    const absl::Status status = checker_.Accept(code);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  TransferChecker checker_{Plan(), 10, 20};
};

TEST_F(TransferCheckerTest, IsCompleteAfterTheLastCodeAndNotBefore) {
  for (const LayerCode& code : AllCodes()) {
    EXPECT_FALSE(checker_.complete());
    EXPECT_EQ(checker_.CheckComplete().code(), absl::StatusCode::kDataLoss);
    ASSERT_TRUE(checker_.Accept(code).ok());
  }
  EXPECT_TRUE(checker_.complete());
  EXPECT_TRUE(checker_.CheckComplete().ok());
}

TEST_F(TransferCheckerTest, LayersAndKindsMayInterleave) {
  std::vector<LayerCode> codes = AllCodes();
  std::mt19937 random(3);
  std::shuffle(codes.begin(), codes.end(), random);
  std::stable_sort(codes.begin(), codes.end(),
                   [](const LayerCode& a, const LayerCode& b) { return a.first_token < b.first_token; });
  for (const LayerCode& code : codes) ASSERT_TRUE(checker_.Accept(code).ok());
  EXPECT_TRUE(checker_.complete());
}

TEST_F(TransferCheckerTest, AnyMissingCodeIsNamed) {
  const std::vector<LayerCode> codes = AllCodes();
  for (std::size_t left_out = 0; left_out < codes.size(); ++left_out) {
    TransferChecker checker(Plan(), 10, 20);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      if (i != left_out) static_cast<void>(checker.Accept(codes[i]));  // what follows a gap is refused
    }
    EXPECT_FALSE(checker.complete());
    const absl::Status status = checker.CheckComplete();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(status.message(), "codes are missing, first those of layer " +
                                    std::to_string(codes[left_out].layer) + " " +
                                    std::string(CodeKindName(codes[left_out].kind)) + ", positions [" +
                                    std::to_string(codes[left_out].first_token) + ", 20)");
  }
}

TEST_F(TransferCheckerTest, AnyRepeatedCodeIsRefused) {
  for (const LayerCode& code : AllCodes()) {
    ASSERT_TRUE(checker_.Accept(code).ok());
    ExpectRefused(code, "was sent before: position " + std::to_string(code.first_token + code.num_tokens));
  }
  EXPECT_TRUE(checker_.complete());  // the repeats count for nothing
}

TEST_F(TransferCheckerTest, PartlyRepeatedRangesAreRefused) {
  ASSERT_TRUE(checker_.Accept(Code(0, CodeKind::kK, 10, 4)).ok());
  ExpectRefused(Code(0, CodeKind::kK, 13, 3), "was sent before: position 14 comes next");
  EXPECT_TRUE(checker_.Accept(Code(0, CodeKind::kK, 14, 6)).ok());
  ExpectRefused(Code(0, CodeKind::kK, 19, 1), "was sent before: position 20 comes next");
}

TEST_F(TransferCheckerTest, ReorderedCodesAreRefused) {
  ExpectRefused(Code(1, CodeKind::kH, 12, 2),
                "code of layer 1 h, 2 tokens from position 12: leaves a gap: position 10 comes next");
}

TEST_F(TransferCheckerTest, CodesThatThePlanHasNotAreRefused) {
  ExpectRefused(Code(1, CodeKind::kK, 10, 3),
                "code of layer 1 k, 3 tokens from position 10: the plan asks for no such");
  ExpectRefused(Code(1, CodeKind::kV, 10, 3), "the plan asks for no such codes");
  ExpectRefused(Code(0, CodeKind::kH, 10, 3), "the plan asks for no such codes");
  ExpectRefused(Code(3, CodeKind::kK, 10, 3),
                "a code for layer 3, kind 1: the plan has 3 layers and kinds 1 to 5");
  ExpectRefused(Code(-1, CodeKind::kK, 10, 3), "a code for layer -1, kind 1");
  ExpectRefused(Code(0, static_cast<CodeKind>(6), 10, 3), "a code for layer 0, kind 6");
  ExpectRefused(Code(0, static_cast<CodeKind>(0), 10, 3), "a code for layer 0, kind 0");
}

TEST_F(TransferCheckerTest, AnotherRankOrTypeIsRefused) {
  ExpectRefused(MakeCode(0, CodeKind::kK, 10, 3, 5), "has rank 5, the plan asks for 4");
  ExpectRefused(MakeCode(0, CodeKind::kK, 10, 3, 4, Codec::kF32), "is f32, the plan asks for bf16");
}

TEST_F(TransferCheckerTest, PositionsOutsideTheTransferAreRefused) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  for (const auto& [first, count] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {9, 3}, {10, 11}, {20, 1}, {0, 1}, {10, kMax}, {kMax, kMax}, {-1, 5}, {kMax, 1}}) {
    LayerCode code = Code(0, CodeKind::kK, 10, 1);
    code.first_token = first;
    code.num_tokens = count;
    ExpectRefused(code, "is outside the transfer's range [10, 20)");
  }
  ExpectRefused(Code(0, CodeKind::kK, 10, 0), "holds no tokens");
}

TEST_F(TransferCheckerTest, AnEmptyRangeIsCompleteAtOnce) {
  TransferChecker checker(Plan(), 10, 10);
  EXPECT_TRUE(checker.complete());
  EXPECT_TRUE(checker.CheckComplete().ok());
  EXPECT_FALSE(checker.Accept(Code(0, CodeKind::kK, 10, 1)).ok());
  EXPECT_TRUE(TransferChecker(Plan(), 10, 5).complete());
}

}  // namespace
}  // namespace scd
