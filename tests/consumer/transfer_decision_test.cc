#include "consumer/transfer_decision.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace scd {
namespace {

LayerPlan Plan(std::int64_t head, std::int64_t tail) {
  LayerPlan plan;
  plan.native_head = head;
  plan.native_tail = tail;
  return plan;
}

const std::vector<std::int32_t> kTen = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};

TEST(TransferDecisionTest, RangeLeavesHeadTailAndLastToken) {
  EXPECT_EQ(RangeToTransfer(Plan(1, 0), 10), (TokenRange{1, 9}));
  EXPECT_EQ(RangeToTransfer(Plan(2, 3), 10), (TokenRange{2, 6}));
  EXPECT_EQ(RangeToTransfer(Plan(0, 0), 2), (TokenRange{0, 1}));
  EXPECT_TRUE(RangeToTransfer(Plan(0, 0), 1).empty());
  EXPECT_TRUE(RangeToTransfer(Plan(1, 16), 18).empty());
  EXPECT_EQ(RangeToTransfer(Plan(1, 16), 19), (TokenRange{1, 2}));
}

TEST(TransferDecisionTest, OnlyWhatIsMissingIsTransferred) {
  const TokenRange range{1, 100};
  EXPECT_EQ(MissingRange(range, 0, 128), range);
  EXPECT_EQ(MissingRange(range, 1, 128), range);  // the native head says nothing about the rest
  EXPECT_EQ(MissingRange(range, 32, 10), (TokenRange{32, 100}));
  EXPECT_EQ(MissingRange(range, 64, 36), TokenRange{});
  EXPECT_EQ(MissingRange(range, 64, 35), (TokenRange{64, 100}));
  EXPECT_EQ(MissingRange(range, 99, 0), (TokenRange{99, 100}));
  EXPECT_EQ(MissingRange(range, 100, 0), TokenRange{});
  EXPECT_EQ(MissingRange({0, 40}, 32, 0), (TokenRange{32, 40}));
}

TEST(TransferDecisionTest, ShortPromptIsNativeUnderEveryPolicy) {
  for (const TransferPolicy policy : {TransferPolicy::kRequire, TransferPolicy::kPrefer}) {
    const auto decision = DecideTransfer(Plan(1, 16), policy, kTen, {});
    ASSERT_TRUE(decision.ok());
    EXPECT_TRUE(decision->range.empty());
    EXPECT_EQ(decision->outcome.reason, TransferReason::kShortPrompt);
    EXPECT_FALSE(decision->outcome.status.ok());
  }
}

TEST(TransferDecisionTest, PolicyOffIsNativeAndSaysSo) {
  const auto decision = DecideTransfer(Plan(1, 0), TransferPolicy::kOff, kTen, {});
  ASSERT_TRUE(decision.ok());
  EXPECT_TRUE(decision->range.empty());
  EXPECT_EQ(decision->outcome.reason, TransferReason::kPolicyOff);
}

TEST(TransferDecisionTest, UntranslatableTokenGoesByPolicy) {
  const std::vector<std::int32_t> untranslatable = {5, 15, 500};
  const auto prefer = DecideTransfer(Plan(1, 2), TransferPolicy::kPrefer, kTen, untranslatable);
  ASSERT_TRUE(prefer.ok());
  EXPECT_TRUE(prefer->range.empty());
  EXPECT_EQ(prefer->outcome.reason, TransferReason::kUntranslatableToken);

  const auto require = DecideTransfer(Plan(1, 2), TransferPolicy::kRequire, kTen, untranslatable);
  EXPECT_EQ(require.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(require.status().message().find("token 15 at position 5"), std::string::npos) << require.status();
  EXPECT_NE(require.status().message().find("untranslatable_token"), std::string::npos) << require.status();
}

TEST(TransferDecisionTest, TokensThatTheProducerNeverSeesMayBeUntranslatable) {
  // Of ten tokens with a native tail of 2 the producer sees positions 0 .. 6.
  const auto decision =
      DecideTransfer(Plan(1, 2), TransferPolicy::kRequire, kTen, std::vector<std::int32_t>{17});
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->range, (TokenRange{1, 7}));
  // The native head is seen by the producer: its codes depend on it.
  EXPECT_FALSE(
      DecideTransfer(Plan(1, 2), TransferPolicy::kRequire, kTen, std::vector<std::int32_t>{10}).ok());
}

TEST(TransferReasonTest, NamesAreDistinctAndRequiredStatusesFail) {
  std::vector<std::string> names;
  for (const TransferReason reason : kAllTransferReasons) {
    const std::string name(TransferReasonName(reason));
    EXPECT_FALSE(name.empty());
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 0) << name;
    names.push_back(name);
    const absl::Status status = StatusForRequiredTransfer({reason, absl::UnavailableError("why")});
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(name), std::string::npos);
    EXPECT_NE(status.message().find("why"), std::string::npos);
  }
  EXPECT_TRUE(StatusForRequiredTransfer({}).ok());
  EXPECT_EQ(
      StatusForRequiredTransfer({TransferReason::kDeadline, absl::DeadlineExceededError("late")}).code(),
      absl::StatusCode::kUnavailable);
  EXPECT_EQ(
      StatusForRequiredTransfer({TransferReason::kRefused, absl::ResourceExhaustedError("full")}).code(),
      absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace scd
