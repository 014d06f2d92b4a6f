#include "producer/code_outbox.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/frame_codec.h"
#include "common/wire/transfer_checker.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

LayerPlan Plan(std::int64_t rank) {
  LayerPlan plan;
  plan.layers = {{.treatment = LayerTreatment::kReuse, .rank_k = rank, .rank_v = 2}};
  return plan;
}

std::shared_ptr<const CodeBlock> Block(const LayerPlan& plan, std::int64_t num_tokens) {
  std::vector<std::string> payloads;
  for (const CodeColumn& column : PlanColumns(plan)) {
    payloads.push_back(std::string(static_cast<std::size_t>(num_tokens * column.rank * 2), '\0'));
  }
  return MakeCodeBlock(num_tokens, std::move(payloads));
}

LayerCode Code(CodeKind kind, std::int64_t rank, std::int64_t first_token, std::int64_t num_tokens) {
  return {.layer = 0,
          .kind = kind,
          .first_token = first_token,
          .num_tokens = num_tokens,
          .rank = rank,
          .codec = Codec::kBF16,
          .payload = std::string(static_cast<std::size_t>(num_tokens * rank * 2), '\0')};
}

// Everything that is left, as a consumer checks it.
void ExpectCompletes(CodeOutbox& outbox, const LayerPlan& plan, std::int64_t end_token) {
  TransferChecker checker(plan, 0, end_token);
  v1::PrefillResponse message;
  std::int64_t num_frames = 0;
  std::int64_t payload_bytes = 0;
  while (outbox.Next(&message)) {
    ASSERT_TRUE(message.has_frame());
    absl::StatusOr<LayerCode> code = FromFrame(std::move(*message.mutable_frame()));
    ASSERT_TRUE(code.ok()) << code.status();
    ASSERT_TRUE(checker.Accept(*code).ok()) << checker.Accept(*code);
    ++num_frames;
    payload_bytes += static_cast<std::int64_t>(code->payload.size());
  }
  EXPECT_TRUE(checker.complete()) << checker.CheckComplete();
  EXPECT_EQ(outbox.num_frames(), num_frames);
  EXPECT_EQ(outbox.payload_bytes(), payload_bytes);
  EXPECT_EQ(outbox.size(), 0);
}

TEST(CodeOutboxTest, KeepsTheOrderOfCodesAndStoredOnes) {
  const LayerPlan plan = Plan(4);
  CodeOutbox outbox;
  outbox.Add(v1::PrefillHeader());
  outbox.Add(plan, {0, {Block(plan, 8), Block(plan, 8)}});
  outbox.Add(Code(CodeKind::kK, 4, 16, 3));
  outbox.Add(Code(CodeKind::kV, 2, 16, 3));
  outbox.Add(plan, {19, {Block(plan, 5)}});
  EXPECT_EQ(outbox.size(), 5);
  v1::PrefillResponse message;
  ASSERT_TRUE(outbox.Next(&message));
  EXPECT_TRUE(message.has_header());
  EXPECT_EQ(outbox.num_frames(), 0);
  ExpectCompletes(outbox, plan, 24);
}

TEST(CodeOutboxTest, ABlockLargerThanAFrameIsSeveral) {
  const LayerPlan plan = Plan(20000);
  CodeOutbox outbox;
  outbox.Add(plan, {0, {Block(plan, 32)}});
  ExpectCompletes(outbox, plan, 32);
  EXPECT_GT(outbox.num_frames(), 2);
}

TEST(CodeOutboxTest, NothingStoredIsNothingToWrite) {
  CodeOutbox outbox;
  outbox.Add(Plan(4), {0, {}});
  EXPECT_EQ(outbox.size(), 0);
  outbox.Add(Code(CodeKind::kK, 4, 0, 1));
  outbox.Clear();
  v1::PrefillResponse message;
  EXPECT_FALSE(outbox.Next(&message));
}

}  // namespace
}  // namespace scd
