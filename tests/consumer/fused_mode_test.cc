// Mode fused, and codes that are entropy coded, over loopback between two daemons that hold the same model.
#include <gmock/gmock.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/consumer/consumer_rig.h"
#include "tests/consumer/scoring.h"

namespace scd::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kPromptTokens = 150;

struct Way {
  std::string mode;
  v1::Codec codec = v1::CODEC_UNSPECIFIED;  // the server's
  std::optional<double> distortion = std::nullopt;
};

void Ask(const Way& way, v1::Transfer* transfer) {
  transfer->set_mode(way.mode);
  if (way.codec != v1::CODEC_UNSPECIFIED) transfer->mutable_plan()->set_codec(way.codec);
  if (way.distortion) transfer->mutable_plan()->set_distortion(*way.distortion);
}

v1::ScoreRequest Request(const Way& way) {
  v1::ScoreRequest request = ScoreRequestFor(ConsumerRig::Prompt(kPromptTokens), ConsumerRig::Prompt(20, 9),
                                             way.mode, /*compare=*/true);
  Ask(way, request.mutable_transfer());
  return request;
}

double MeanKl(const v1::ScoreResponse& response) {
  double sum = 0;
  for (const v1::PositionScore& position : response.positions()) sum += position.kl();
  return sum / response.positions_size();
}

class FusedModeTest : public ScoringTest {};

TEST_F(FusedModeTest, CodesThatAreKAndVGiveTheModelsOwnAnswers) {
  for (const std::uint32_t head : {0u, 1u, 9u}) {
    v1::ScoreRequest request = Request({"fused", v1::CODEC_F32});
    request.mutable_transfer()->mutable_plan()->set_native_head(head);
    const v1::ScoreResponse scored = Score(request);
    EXPECT_EQ(scored.report().mode(), "fused");
    EXPECT_EQ(scored.report().reason(), "");
    EXPECT_EQ(scored.report().transferred_tokens(), kPromptTokens - 1 - 2 - head);
    EXPECT_LT(MeanKl(scored), 1e-6) << head;
  }
}

// The coarser, the fewer bytes and the more error.
TEST_F(FusedModeTest, TheDistortionTradesBytesForError) {
  for (const std::string mode : {"fused", "scd", "reuse"}) {
    SCOPED_TRACE(mode);
    const v1::ScoreResponse plain = Score(Request({mode, v1::CODEC_BF16}));
    const v1::ScoreResponse fine = Score(Request({mode, v1::CODEC_ENTROPY, 0.0001}));
    const v1::ScoreResponse coarse = Score(Request({mode, v1::CODEC_ENTROPY, 0.01}));
    EXPECT_LT(coarse.report().code_bytes(), plain.report().code_bytes());
    EXPECT_LT(coarse.report().code_bytes(), fine.report().code_bytes());
    EXPECT_GT(MeanKl(coarse), MeanKl(fine));
    EXPECT_LT(MeanKl(fine), 0.1);
    // Without a distortion it is the bundle's default, its first.
    EXPECT_EQ(Score(Request({mode, v1::CODEC_ENTROPY})).report().code_bytes(), fine.report().code_bytes());
  }
}

TEST_F(FusedModeTest, AutoIsFusedUnlessScdIsAskedFor) {
  EXPECT_EQ(Score(Request({"auto"})).report().mode(), "fused");
  EXPECT_EQ(Score(Request({""})).report().mode(), "fused");
  v1::ScoreRequest ranks = Request({"auto"});
  ranks.mutable_transfer()->mutable_plan()->set_rank_k(4);
  EXPECT_EQ(Score(ranks).report().mode(), "scd");
  v1::ScoreRequest no_patch = Request({"auto"});
  no_patch.mutable_transfer()->mutable_plan()->mutable_patch_layers();
  EXPECT_EQ(Score(no_patch).report().mode(), "scd");
}

TEST_F(FusedModeTest, WhatMakesNoSenseIsRefusedWithTheField) {
  const auto expect = [this](const Way& way, const auto& message) {
    v1::ScoreResponse response;
    const grpc::Status status = rig_.Score(Request(way), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_THAT(status.error_message(), message);
  };
  expect({"fused", v1::CODEC_ENTROPY, 0.5},
         HasSubstr("transfer.plan.distortion: 0.5 is not among those of this bundle: 0.0001, 0.01"));
  expect({"fused", v1::CODEC_BF16, 0.01},
         HasSubstr("transfer.plan.distortion: given, but codec bf16 has none"));
  expect({"raw", v1::CODEC_UNSPECIFIED, 0.01}, HasSubstr("transfer.plan.distortion"));
  expect({"raw", v1::CODEC_ENTROPY}, HasSubstr("transfer.plan.codec: mode raw sends bf16 or f32"));
  expect({"quantized", v1::CODEC_ENTROPY}, HasSubstr("transfer.plan.codec: mode quantized"));
  expect({"selective", v1::CODEC_ENTROPY}, HasSubstr("transfer.plan.codec: mode selective"));
  v1::ScoreRequest ranks = Request({"fused"});
  ranks.mutable_transfer()->mutable_plan()->set_rank_k(2);
  v1::ScoreResponse response;
  EXPECT_THAT(rig_.Score(ranks, &response).error_message(), HasSubstr("transfer.plan.rank_k"));
}

std::uint64_t BytesOf(ConsumerRig& rig, const Way& way) {
  v1::ScoreResponse response;
  const grpc::Status status = rig.Score(Request(way), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.report().code_bytes();
}

TEST(FusedModeConfigTest, CodecAutoFollowsTheMode) {
  ConsumerRig rig({.codec = "auto"});
  EXPECT_EQ(BytesOf(rig, {"scd"}), BytesOf(rig, {"scd", v1::CODEC_BF16}));
  EXPECT_EQ(BytesOf(rig, {"reuse"}), BytesOf(rig, {"reuse", v1::CODEC_BF16}));
  EXPECT_EQ(BytesOf(rig, {"fused"}), BytesOf(rig, {"fused", v1::CODEC_ENTROPY}));
}

TEST(FusedModeConfigTest, TheServersDistortionIsThatOfItsCodecAlone) {
  for (const std::string codec : {"auto", "bf16", "entropy"}) {
    SCOPED_TRACE(codec);
    ConsumerRig rig({.plan = "native_tail: 2, distortion: 0.01", .codec = codec});
    const std::uint64_t coarse = BytesOf(rig, {"scd", v1::CODEC_ENTROPY, 0.01});
    EXPECT_EQ(BytesOf(rig, {"scd", v1::CODEC_ENTROPY}), coarse);
    EXPECT_GT(BytesOf(rig, {"scd", v1::CODEC_ENTROPY, 0.0001}), coarse);
    EXPECT_EQ(BytesOf(rig, {"scd"}), codec == "entropy" ? coarse : BytesOf(rig, {"scd", v1::CODEC_BF16}));
    EXPECT_GT(BytesOf(rig, {"fused", v1::CODEC_INT8}), 0u);
  }
}

// However a prompt's codes come (made now, taken from the producer's store, with the beginning in the
// consumer's own cache), and however its prefill is cut, they are the same state.
class OneStateTest : public ::testing::TestWithParam<Way> {
 protected:
  static std::vector<std::int32_t> WithQuestion(unsigned seed) {
    std::vector<std::int32_t> prompt = ConsumerRig::Prompt(110, 5);
    const std::vector<std::int32_t> question = ConsumerRig::Prompt(40, seed);
    prompt.insert(prompt.end(), question.begin(), question.end());
    return prompt;
  }

  static Answer Generate(ConsumerRig& rig, unsigned question, bool shares, bool stored) {
    v1::GenerateRequest request = ConsumerRig::Request(WithQuestion(question), "", v1::POLICY_REQUIRE, 12);
    Ask(GetParam(), request.mutable_transfer());
    request.mutable_transfer()->set_no_prefix_cache(!shares);
    request.mutable_transfer()->set_no_code_store(!stored);
    const Answer answer = rig.Generate(request);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    return answer;
  }

  static RigOptions Options(std::int64_t chunk_tokens) {
    return {.consumer_yaml = "max_uncoded_tokens: 0\n",
            .kv_cache = "pages: 64, page_tokens: 32",
            .code_store_mib = 8,
            .code_store_block_tokens = 32,
            .chunk_tokens = chunk_tokens};
  }
};

TEST_P(OneStateTest, FreshStoredAndCachedAgree) {
  ConsumerRig rig(Options(64));
  const Answer fresh = Generate(rig, 7, /*shares=*/false, /*stored=*/false);
  EXPECT_EQ(fresh.report().stored_tokens(), 0u);
  const Answer first = Generate(rig, 7, /*shares=*/false, /*stored=*/true);
  const Answer stored = Generate(rig, 7, /*shares=*/false, /*stored=*/true);
  EXPECT_GT(stored.report().stored_tokens(), 90u);
  const Answer shared = Generate(rig, 7, /*shares=*/true, /*stored=*/true);
  EXPECT_EQ(shared.report().cached_tokens(), 0u);
  const Answer cached = Generate(rig, 7, /*shares=*/true, /*stored=*/true);
  EXPECT_EQ(cached.report().cached_tokens(), 128u);
  for (const Answer* answer : {&first, &stored, &shared, &cached}) EXPECT_EQ(answer->ids, fresh.ids);

  const Answer other = Generate(rig, 8, /*shares=*/true, /*stored=*/true);
  EXPECT_EQ(other.report().cached_tokens(), 96u);
  EXPECT_EQ(other.ids, Generate(rig, 8, /*shares=*/false, /*stored=*/false).ids);
  EXPECT_TRUE(rig.BecomesIdle(1));
}

TEST_P(OneStateTest, HoweverThePrefillIsCut) {
  std::vector<std::vector<std::int32_t>> answers;
  for (const std::int64_t chunk_tokens : {32, 40, 64, 100, 512}) {
    ConsumerRig rig(Options(chunk_tokens));
    answers.push_back(Generate(rig, 7, /*shares=*/false, /*stored=*/false).ids);
    EXPECT_EQ(Generate(rig, 7, /*shares=*/false, /*stored=*/true).ids, answers.back()) << chunk_tokens;
    EXPECT_EQ(answers.back(), answers.front()) << chunk_tokens;
  }
}

// Too short for a granule: codes of such chunks are cut where the chunks are, and not stored.
TEST_P(OneStateTest, ChunksUnderAGranuleStillServe) {
  ConsumerRig rig(Options(20));
  const Answer fresh = Generate(rig, 7, /*shares=*/false, /*stored=*/true);
  const Answer again = Generate(rig, 7, /*shares=*/false, /*stored=*/true);
  EXPECT_EQ(again.ids, fresh.ids);
  const bool granules = GetParam().mode == "fused" || GetParam().codec == v1::CODEC_ENTROPY;
  EXPECT_EQ(again.report().stored_tokens() > 0, !granules);
}

INSTANTIATE_TEST_SUITE_P(Ways, OneStateTest,
                         ::testing::Values(Way{"fused", v1::CODEC_ENTROPY},
                                           Way{"fused", v1::CODEC_ENTROPY, 0.01},
                                           Way{"fused", v1::CODEC_BF16}, Way{"fused", v1::CODEC_F32},
                                           Way{"fused", v1::CODEC_INT8}, Way{"scd", v1::CODEC_ENTROPY},
                                           Way{"reuse", v1::CODEC_ENTROPY}, Way{"scd", v1::CODEC_BF16}),
                         [](const auto& info) {
                           return info.param.mode + "_" + v1::Codec_Name(info.param.codec) +
                                  (info.param.distortion ? "_coarse" : "");
                         });

// Two distortions of one prompt are two sets of codes, in the store and in the cache.
TEST(FusedModeStoreTest, RatePointsAreNotMixedUp) {
  ConsumerRig rig({.consumer_yaml = "max_uncoded_tokens: 0\n",
                   .kv_cache = "pages: 64, page_tokens: 32",
                   .code_store_mib = 8,
                   .code_store_block_tokens = 32});
  const auto ask = [&rig](double distortion, bool shares) {
    v1::GenerateRequest request =
        ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "fused", v1::POLICY_REQUIRE);
    Ask({"fused", v1::CODEC_ENTROPY, distortion}, request.mutable_transfer());
    request.mutable_transfer()->set_no_prefix_cache(!shares);
    const Answer answer = rig.Generate(request);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    return answer.report();
  };
  EXPECT_EQ(ask(0.0001, false).stored_tokens(), 0u);
  EXPECT_EQ(ask(0.01, false).stored_tokens(), 0u);
  EXPECT_GT(ask(0.01, false).stored_tokens(), 0u);
  EXPECT_GT(ask(0.0001, true).stored_tokens(), 0u);
  EXPECT_EQ(ask(0.01, true).cached_tokens(), 0u);
  EXPECT_GT(ask(0.01, true).cached_tokens(), 0u);
}

}  // namespace
}  // namespace scd::testing
