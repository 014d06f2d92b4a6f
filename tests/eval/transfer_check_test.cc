#include "eval/transfer_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace scd {
namespace {

using ::testing::HasSubstr;

const TransferSpec kAsked{.mode = "scd", .native_head = 1, .native_tail = 16};

// 100 prompt tokens, of which 82 are transferred.
TransferFigures Honest() {
  TransferFigures figures;
  figures.mode = "scd";
  figures.prompt_tokens = 100;
  figures.transferred_tokens = 82;
  figures.computed_tokens = 18;
  figures.received_bytes = 82 * 40 + 100;
  figures.code_bytes = 82 * 40;
  return figures;
}

// 40 bytes a token: ranks 8 and 12 in bf16.
LayerPlan Plan() {
  LayerPlan plan;
  plan.layers = {{.treatment = LayerTreatment::kReuse, .rank_k = 8, .rank_v = 12}};
  return plan;
}

TEST(CheckTransferTest, TakesWhatThePlanSays) {
  const LayerPlan plan = Plan();
  EXPECT_TRUE(CheckTransfer(kAsked, &plan, CodeUse::kFresh, Honest()).ok());
  EXPECT_TRUE(CheckTransfer(kAsked, nullptr, CodeUse::kFresh, Honest()).ok());
  TransferFigures stored = Honest();
  stored.transferred_tokens = 64;  // the producer may leave some to the consumer
  stored.computed_tokens = 36;
  stored.stored_tokens = 64;
  EXPECT_TRUE(CheckTransfer(kAsked, &plan, CodeUse::kStored, stored).ok());
  TransferFigures local;
  local.mode = "local";
  local.reason = "policy_off";
  local.prompt_tokens = local.computed_tokens = 100;
  EXPECT_TRUE(CheckTransfer({.mode = "local"}, nullptr, CodeUse::kFresh, local).ok());
}

// K has a scale and a minimum for each column of 32 tokens, or fewer at the end: a short range costs more for
// each token than a long one.
TEST(CheckTransferTest, TakesIntegerCodesOfAnyRange) {
  LayerPlan plan;
  plan.codec = Codec::kInt4;
  plan.layers = {{.treatment = LayerTreatment::kRaw, .rank_k = 16, .rank_v = 16}};
  const TransferSpec asked{.mode = "quantized_rerope"};
  struct Case {
    std::int64_t tokens, least, most;
  };
  for (const Case& c : {Case{1, 72 + 12, 72 + 12}, {4, 96 + 48, 4 * 84}, {33, 392 + 396, 33 * 84}}) {
    TransferFigures figures;
    figures.mode = "quantized_rerope";
    figures.prompt_tokens = c.tokens + 1;
    figures.transferred_tokens = c.tokens;
    figures.computed_tokens = 1;
    figures.received_bytes = 1 << 20;
    const auto check = [&](std::int64_t code_bytes) {
      figures.code_bytes = code_bytes;
      return CheckTransfer(asked, &plan, CodeUse::kFresh, figures);
    };
    EXPECT_TRUE(check(c.least).ok()) << check(c.least);
    EXPECT_TRUE(check(c.most).ok()) << check(c.most);
    EXPECT_FALSE(check(c.least - 1).ok()) << c.tokens;
    EXPECT_FALSE(check(c.most + 1).ok()) << c.tokens;
  }
}

// Three granules of 32 tokens or fewer, each with 19 bytes of its own; at most 7 bytes for a number.
TEST(CheckTransferTest, TakesWhateverEntropyCodedNumbersMayTake) {
  LayerPlan plan;
  plan.codec = Codec::kEntropy;
  plan.layers = {{.treatment = LayerTreatment::kFused, .rank_kv = 10},
                 {.treatment = LayerTreatment::kFused, .rank_kv = 10}};
  const TransferSpec asked{.mode = "fused", .native_head = 1, .native_tail = 16};
  TransferFigures figures = Honest();
  figures.mode = "fused";
  figures.received_bytes = 1 << 20;
  const auto check = [&](std::int64_t code_bytes) {
    figures.code_bytes = code_bytes;
    return CheckTransfer(asked, &plan, CodeUse::kFresh, figures);
  };
  const std::int64_t least = 2 * 3 * 19, most = 2 * 82 * (19 + 10 * 7);
  EXPECT_TRUE(check(least).ok()) << check(least);
  EXPECT_TRUE(check(most).ok()) << check(most);
  EXPECT_THAT(std::string(check(least - 1).message()), HasSubstr("makes 114 to 14596"));
  EXPECT_FALSE(check(most + 1).ok());
}

struct Lie {
  const char* name;
  std::function<void(TransferFigures&)> tell;
  const char* error;
};
void PrintTo(const Lie& lie, std::ostream* out) {
  *out << lie.name;
}

class CheckTransferLies : public ::testing::TestWithParam<Lie> {};

TEST_P(CheckTransferLies, AreFoundOut) {
  TransferFigures figures = Honest();
  GetParam().tell(figures);
  const LayerPlan plan = Plan();
  const absl::Status status = CheckTransfer(kAsked, &plan, CodeUse::kFresh, figures);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().error));
}

const Lie kLies[] = {
    {"another mode",
     [](TransferFigures& f) {
       f.mode = "local";
       f.reason = "deadline";
       f.detail = "too late";
     },
     "mode scd was asked for, local served (deadline: too late)"},
    {"short prompt",
     [](TransferFigures& f) {
       f.mode = "local";
       f.reason = "short_prompt";
       f.prompt_tokens = 12;
     },
     "12 tokens leave nothing to transfer at native head 1 and tail 16"},
    {"too few",
     [](TransferFigures& f) {
       f.transferred_tokens = 81;
       f.computed_tokens = 19;
     },
     "81 tokens were transferred, the plan says 82 of 100"},
    {"too many",
     [](TransferFigures& f) {
       f.transferred_tokens = 99;
       f.computed_tokens = 1;
     },
     "99 tokens were transferred"},
    {"a count that does not add up", [](TransferFigures& f) { f.computed_tokens = 17; },
     "82 transferred, 17 computed"},
    {"cached",
     [](TransferFigures& f) {
       f.cached_tokens = 5;
       f.computed_tokens = 13;
     },
     "5 cached tokens"},
    {"from the store", [](TransferFigures& f) { f.stored_tokens = 64; },
     "64 tokens came from the producer's code store"},
    {"no codes", [](TransferFigures& f) { f.code_bytes = 0; }, "0 bytes of codes"},
    {"more codes than bytes", [](TransferFigures& f) { f.received_bytes = 82; },
     "bytes of codes in 82 received bytes"},
    {"codes of another plan", [](TransferFigures& f) { f.code_bytes -= 82; },
     "3198 bytes of codes for 82 tokens"},
    {"no prompt", [](TransferFigures& f) { f.prompt_tokens = 0; }, "no tokens"},
};

INSTANTIATE_TEST_SUITE_P(Reports, CheckTransferLies, ::testing::ValuesIn(kLies));

TEST(CheckTransferTest, LocalMeansThatNothingCame) {
  TransferFigures figures;
  figures.mode = "local";
  figures.prompt_tokens = figures.computed_tokens = 100;
  figures.received_bytes = 5;
  EXPECT_THAT(std::string(CheckTransfer({.mode = "local"}, nullptr, CodeUse::kFresh, figures).message()),
              HasSubstr("5 bytes came from the producer"));
  figures.received_bytes = 0;
  figures.computed_tokens = 90;
  EXPECT_THAT(std::string(CheckTransfer({.mode = "local"}, nullptr, CodeUse::kFresh, figures).message()),
              HasSubstr("computed 90 of 100"));
}

TEST(CheckPositionsTest, RefusesWhatCannotBe) {
  ScoredText scored;
  scored.positions = {{.logprob = -1, .kl = 0.1, .tv = 0.2, .native_logprob = -1}, {}};
  EXPECT_TRUE(CheckPositions(scored, 2).ok());
  EXPECT_THAT(std::string(CheckPositions(scored, 3).message()),
              HasSubstr("2 positions were scored instead of 3"));
  const auto with = [&scored](auto change) {
    ScoredText changed = scored;
    change(changed.positions[0]);
    return CheckPositions(changed, 2);
  };
  EXPECT_FALSE(with([](PositionFigures& p) { p.kl = std::numeric_limits<double>::quiet_NaN(); }).ok());
  EXPECT_FALSE(with([](PositionFigures& p) { p.kl = -0.5; }).ok());
  EXPECT_FALSE(with([](PositionFigures& p) { p.tv = 1.5; }).ok());
  EXPECT_FALSE(with([](PositionFigures& p) { p.logprob = 0.5; }).ok());
  EXPECT_FALSE(
      with([](PositionFigures& p) { p.native_logprob = std::numeric_limits<double>::infinity(); }).ok());
}

}  // namespace
}  // namespace scd
