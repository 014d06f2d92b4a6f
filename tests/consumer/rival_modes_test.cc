// Every way of moving state over loopback, between two daemons that hold the same model: what comes over is
// the consumer's own state, but for rounding.
#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/consumer/scoring.h"

namespace scd::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kPromptTokens = 150;
constexpr std::uint32_t kTail = 2;

struct Way {
  std::string mode;
  v1::Codec codec = v1::CODEC_UNSPECIFIED;  // the mode's own
  std::vector<std::uint32_t> recompute = {};
};

v1::ScoreRequest Request(const Way& way, std::uint32_t native_head = 1) {
  v1::ScoreRequest request = ScoreRequestFor(ConsumerRig::Prompt(kPromptTokens), ConsumerRig::Prompt(20, 9),
                                             way.mode, /*compare=*/true);
  v1::Transfer& transfer = *request.mutable_transfer();
  transfer.mutable_plan()->set_native_head(native_head);
  if (way.codec != v1::CODEC_UNSPECIFIED) transfer.mutable_plan()->set_codec(way.codec);
  if (!way.recompute.empty()) {
    transfer.mutable_plan()->mutable_recompute_layers()->set_first(way.recompute[0]);
    transfer.mutable_plan()->mutable_recompute_layers()->set_last(way.recompute[1]);
  }
  return request;
}

double MeanKl(const v1::ScoreResponse& response) {
  double sum = 0;
  for (const v1::PositionScore& position : response.positions()) sum += position.kl();
  return sum / response.positions_size();
}

class RivalModesTest : public ScoringTest {};

TEST_F(RivalModesTest, TheSameModelsStateGivesTheSameAnswers) {
  for (const std::uint32_t head : {0u, 1u, 9u}) {
    for (const Way& way : {Way{"raw", v1::CODEC_F32}, Way{"raw_rerope", v1::CODEC_F32},
                           Way{"selective", v1::CODEC_F32, {0, 2}}, Way{"selective", v1::CODEC_F32, {1, 1}},
                           Way{"selective", v1::CODEC_F32, {2, 2}}}) {
      const v1::ScoreResponse scored = Score(Request(way, head));
      EXPECT_EQ(scored.report().mode(), way.mode);
      EXPECT_EQ(scored.report().reason(), "");
      EXPECT_EQ(scored.report().transferred_tokens(), kPromptTokens - 1 - kTail - head);
      EXPECT_EQ(scored.report().computed_tokens(), 1 + kTail + head);
      EXPECT_LT(MeanKl(scored), 1e-7) << way.mode << " head " << head;
    }
  }
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST_F(RivalModesTest, FewerBitsFewerBytesMoreError) {
  ConsumerRig rig({.code_store_block_tokens = 32});  // frames end with whole groups of tokens
  double last_kl = 0;
  std::uint64_t last_bytes = 1u << 30;
  // Groups that lie far from zero are finer in 8 bits than in bf16, which is therefore not among them.
  for (const Way& way : {Way{"raw", v1::CODEC_F32}, Way{"quantized", v1::CODEC_INT8}, Way{"quantized"}}) {
    v1::ScoreResponse scored;
    ASSERT_TRUE(rig.Score(Request(way), &scored).ok());
    EXPECT_GT(MeanKl(scored), last_kl) << way.mode << " codec " << way.codec;
    EXPECT_LT(scored.report().code_bytes(), last_bytes) << way.mode;
    last_kl = MeanKl(scored);
    last_bytes = scored.report().code_bytes();
  }
}

TEST_F(RivalModesTest, CodesMayBeIntegersToo) {
  const v1::ScoreResponse plain = Score(Request({"reuse"}));
  const v1::ScoreResponse integers = Score(Request({"reuse", v1::CODEC_INT8}));
  EXPECT_LT(integers.report().code_bytes(), plain.report().code_bytes() * 2 / 3);
  EXPECT_GT(MeanKl(integers), MeanKl(plain));
  EXPECT_LT(MeanKl(integers), MeanKl(Score(Request({"reuse", v1::CODEC_INT4}))));
}

TEST_F(RivalModesTest, WhatMakesNoSenseIsRefusedWithTheField) {
  const auto expect = [this](const v1::ScoreRequest& request, const std::string& message) {
    v1::ScoreResponse response;
    const grpc::Status status = rig_.Score(request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr(message));
  };
  expect(Request({"raw", v1::CODEC_INT4}), "transfer.plan.codec: mode raw");
  expect(Request({"quantized", v1::CODEC_F32}), "transfer.plan.codec: mode quantized");
  expect(Request({"scd", static_cast<v1::Codec>(77)}),
         "transfer.plan.codec: 77 is none that this program knows");
  expect(Request({"selective", v1::CODEC_F32, {2, 1}}), "transfer.plan.recompute_layers");
  expect(Request({"selective", v1::CODEC_F32, {0, 99}}), "transfer.plan.recompute_layers");
  expect(Request({"raw", v1::CODEC_BF16, {0, 1}}), "transfer.plan.recompute_layers");
  v1::ScoreRequest ranks = Request({"raw"});
  ranks.mutable_transfer()->mutable_plan()->set_rank_k(2);
  expect(ranks, "transfer.plan.rank_k");
}

TEST_F(RivalModesTest, RequestsInEveryModeAtOnceDoNotDisturbEachOther) {
  const std::vector<Way> ways = {{"raw"}, {"selective", v1::CODEC_F32, {0, 2}},  {"quantized_rerope"},
                                 {"scd"}, {"selective", v1::CODEC_BF16, {1, 2}}, {"raw_rerope"}};
  std::vector<double> alone, together(ways.size());
  for (const Way& way : ways) alone.push_back(MeanKl(Score(Request(way))));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    threads.emplace_back([&, i] { together[i] = MeanKl(Score(Request(ways[i]))); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < ways.size(); ++i) EXPECT_NEAR(together[i], alone[i], 1e-6 + alone[i] / 100);
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST_F(RivalModesTest, ARequestThatEndsWhileItsHeadIsComputedFreesEverything) {
  // Long native work in front keeps the head of the second request waiting while its rows arrive.
  std::thread busy([this] {
    v1::ScoreRequest long_one = Request({"local"});
    Score(long_one);
  });
  v1::ScoreRequest request = Request({"selective", v1::CODEC_F32, {0, 2}}, 100);
  request.mutable_transfer()->set_timeout_ms(1);
  v1::ScoreResponse response;
  const grpc::Status status = rig_.Score(request, &response);
  if (!status.ok()) {
    EXPECT_THAT(status.error_message(), HasSubstr("(deadline)"));
  }
  busy.join();
  EXPECT_TRUE(rig_.BecomesIdle(2));
}

TEST(RivalModesStoreTest, StoredBlocksServeEveryCodecAlike) {
  ConsumerRig rig({.code_store_mib = 8, .code_store_block_tokens = 32});
  for (const Way& way :
       {Way{"raw"}, Way{"raw_rerope"}, Way{"quantized"}, Way{"quantized_rerope", v1::CODEC_INT8},
        Way{"selective", v1::CODEC_BF16, {1, 2}}, Way{"scd", v1::CODEC_INT4}}) {
    v1::ScoreResponse fresh, stored;
    ASSERT_TRUE(rig.Score(Request(way), &fresh).ok());
    ASSERT_TRUE(rig.Score(Request(way), &stored).ok());
    EXPECT_EQ(fresh.report().stored_tokens(), 0u) << way.mode;
    EXPECT_GT(stored.report().stored_tokens(), 0u) << way.mode;
    // What the store has is what was sent; the tokens after its last block are computed instead.
    EXPECT_LE(MeanKl(stored), MeanKl(fresh) * 5 + 1e-6) << way.mode;
  }
}

}  // namespace
}  // namespace scd::testing
