// Consumer.Score over loopback with an honest producer.
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/consumer/scoring.h"

namespace scd::testing {
namespace {

constexpr std::size_t kPromptTokens = 60;

class ScoreServiceTest : public ScoringTest {};

TEST_F(ScoreServiceTest, LogprobsAreThoseOfGeneration) {
  const auto prompt = ConsumerRig::Prompt(kPromptTokens);
  const Answer answer = rig_.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_REQUIRE, 12));
  ASSERT_TRUE(answer.status.ok());
  const v1::ScoreResponse scored = Score(ScoreRequestFor(prompt, answer.ids, "scd", false));
  ASSERT_EQ(scored.positions_size(), 13);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(scored.positions(i).token_id(), answer.ids[static_cast<std::size_t>(i)]);
    EXPECT_NEAR(scored.positions(i).logprob(), answer.tokens[static_cast<std::size_t>(i)].logprob(), 1e-4);
    EXPECT_EQ(scored.positions(i).kl(), 0) << "not asked for";
  }
  EXPECT_EQ(scored.positions(12).logprob(), 0);
  EXPECT_EQ(scored.report().mode(), "scd");
  EXPECT_EQ(scored.report().transferred_tokens(), kPromptTokens - 4);
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST_F(ScoreServiceTest, LocalComparedWithNativeIsZero) {
  const v1::ScoreResponse scored =
      Score(ScoreRequestFor(ConsumerRig::Prompt(kPromptTokens), ConsumerRig::Prompt(20, 9), "local", true));
  ASSERT_EQ(scored.positions_size(), 21);
  for (const v1::PositionScore& position : scored.positions()) {
    EXPECT_EQ(position.kl(), 0);
    EXPECT_EQ(position.tv(), 0);
    EXPECT_EQ(position.native_logprob(), position.logprob());
  }
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST_F(ScoreServiceTest, IdentityBundleIsHardlyApartFromNative) {
  const v1::ScoreResponse scored =
      Score(ScoreRequestFor(ConsumerRig::Prompt(kPromptTokens), ConsumerRig::Prompt(20, 9), "scd", true));
  ASSERT_EQ(scored.positions_size(), 21);
  for (const v1::PositionScore& position : scored.positions()) {
    EXPECT_LT(position.kl(), 1e-6);
    EXPECT_LT(position.tv(), 1e-3);
    EXPECT_NEAR(position.native_logprob(), position.logprob(), 1e-3);
  }
  EXPECT_EQ(scored.report().mode(), "scd");
}

TEST_F(ScoreServiceTest, LowRankIsApartFromNative) {
  v1::ScoreRequest request =
      ScoreRequestFor(ConsumerRig::Prompt(kPromptTokens), ConsumerRig::Prompt(20, 9), "scd", true);
  v1::PlanOverride* plan = request.mutable_transfer()->mutable_plan();
  plan->set_rank_k(2);
  plan->set_rank_v(2);
  plan->mutable_patch_layers();
  double kl = 0;
  double tv = 0;
  const v1::ScoreResponse scored = Score(request);
  for (const v1::PositionScore& position : scored.positions()) {
    EXPECT_GE(position.kl(), 0);
    // Pinsker's inequality.
    EXPECT_LE(position.tv(), std::sqrt(position.kl() / 2) + 1e-9);
    kl += position.kl();
    tv += position.tv();
  }
  EXPECT_GT(kl, 1e-6);
  EXPECT_GT(tv, 1e-4);
}

TEST_F(ScoreServiceTest, EmptyContinuationIsOnePosition) {
  v1::ScoreRequest request = ScoreRequestFor(ConsumerRig::Prompt(kPromptTokens), {}, "scd", true);
  request.clear_continuation();
  const v1::ScoreResponse scored = Score(request);
  ASSERT_EQ(scored.positions_size(), 1);
  EXPECT_LT(scored.positions(0).kl(), 1e-6);
  EXPECT_EQ(scored.positions(0).logprob(), 0);
}

TEST_F(ScoreServiceTest, TextContinuationIsTokenizedByItself) {
  v1::ScoreRequest request = ScoreRequestFor(ConsumerRig::Prompt(kPromptTokens), {}, "local", false);
  request.set_text("Hello, world!");
  const v1::ScoreResponse scored = Score(request);
  const std::vector<std::int32_t> ids = {42, 506, 81, 14, 271, 990, 3};
  ASSERT_EQ(scored.positions_size(), static_cast<int>(ids.size()) + 1);
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(scored.positions(static_cast<int>(i)).token_id(), ids[i]);
}

TEST_F(ScoreServiceTest, WrongContinuationsAreNamed) {
  v1::ScoreResponse response;
  grpc::Status status =
      rig_.Score(ScoreRequestFor(ConsumerRig::Prompt(kPromptTokens), {5, 1024}, "scd", false), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("tokens.ids[1]"), std::string::npos) << status.error_message();
  status = rig_.Score(
      ScoreRequestFor(ConsumerRig::Prompt(kPromptTokens), ConsumerRig::Prompt(453), "scd", false), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("continuation"), std::string::npos) << status.error_message();
}

TEST(ScoreMemoryTest, MoreLogitsThanTheServerKeepsAreRefused) {
  // 1 MiB holds 256 rows of 1024 logits.
  ConsumerRig rig({.consumer_yaml = "limits: {max_score_logits_mib: 1}\n"});
  v1::ScoreResponse response;
  EXPECT_TRUE(
      rig.Score(ScoreRequestFor(ConsumerRig::Prompt(20), ConsumerRig::Prompt(255), "local", true), &response)
          .ok());
  const grpc::Status status =
      rig.Score(ScoreRequestFor(ConsumerRig::Prompt(20), ConsumerRig::Prompt(256), "local", true), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("at most 255"), std::string::npos) << status.error_message();
}

}  // namespace
}  // namespace scd::testing
