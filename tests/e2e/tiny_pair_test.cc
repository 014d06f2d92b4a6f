// Both daemons as they are shipped, with a tiny pair: answers, kills, restarts, signals.
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/tiny_pair_fixture.h"

namespace scd::testing {
namespace {

std::vector<std::int32_t> Prompt(std::size_t length, std::int32_t seed = 1) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < length; ++i)
    ids.push_back((static_cast<std::int32_t>(i) * 37 + seed * 11) % 250);
  return ids;
}

class TinyPairTest : public TinyPairFixture {
 protected:
  // The whole way, whatever was asked before.
  Answer Generate(const std::string& mode, v1::Policy policy, std::size_t length = 60) {
    v1::GenerateRequest request = ConsumerClient::Request(Prompt(length), mode, policy);
    request.mutable_transfer()->set_no_prefix_cache(true);
    return pair_->client().Generate(request);
  }

  // Stops the producer, asks, and kills the producer while the consumer waits for it.
  Answer GenerateWhileTheProducerDies(v1::Policy policy) {
    pair_->producer().Signal(SIGSTOP);
    Answer answer;
    std::thread client([&] { answer = Generate("scd", policy); });
    while (policy != v1::POLICY_OFF && pair_->client().Info().requests_in_flight() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pair_->KillProducer();
    client.join();
    return answer;
  }
};

TEST_F(TinyPairTest, AnswersThroughTheCodesEqualTheModelsOwn) {
  const Answer local = Generate("local", v1::POLICY_REQUIRE);
  const Answer scd = Generate("scd", v1::POLICY_REQUIRE);
  ASSERT_TRUE(local.status.ok()) << local.status.error_message();
  ASSERT_TRUE(scd.status.ok()) << scd.status.error_message();
  EXPECT_EQ(scd.ids, local.ids);
  EXPECT_EQ(scd.report().mode(), "scd");
  EXPECT_GT(scd.report().transferred_tokens(), 40u);
  EXPECT_EQ(pair_->consumer().Metric("scd_prompt_tokens_total{source=\"transferred\"}"),
            scd.report().transferred_tokens());
  EXPECT_EQ(pair_->consumer().Metric("scd_kv_pages_used"), 0);
  EXPECT_TRUE(pair_->BecomesIdle(1));
}

TEST_F(TinyPairTest, ProducerKilledUnderRequire) {
  const Answer answer = GenerateWhileTheProducerDies(v1::POLICY_REQUIRE);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE) << answer.status.error_message();
  EXPECT_NE(answer.status.error_message().find("producer_unavailable"), std::string::npos)
      << answer.status.error_message();
  EXPECT_TRUE(answer.ids.empty());
  EXPECT_LT(answer.seconds, 5);
  EXPECT_TRUE(pair_->client().BecomesIdle(0.5));
}

TEST_F(TinyPairTest, ProducerKilledUnderPrefer) {
  const Answer local = Generate("local", v1::POLICY_OFF);
  const Answer answer = GenerateWhileTheProducerDies(v1::POLICY_PREFER);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.ids, local.ids);
  EXPECT_EQ(answer.report().mode(), "local");
  EXPECT_EQ(answer.report().reason(), "producer_unavailable");
  EXPECT_EQ(pair_->consumer().Metric("scd_fallbacks_total{reason=\"producer_unavailable\"}"), 1);
  EXPECT_TRUE(pair_->client().BecomesIdle(0.5));
}

TEST_F(TinyPairTest, ProducerKilledUnderOff) {
  const Answer answer = GenerateWhileTheProducerDies(v1::POLICY_OFF);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.report().reason(), "policy_off");
  EXPECT_TRUE(pair_->client().BecomesIdle(0.5));
}

TEST_F(TinyPairTest, ProducerThatStandsStillCostsTheTimeBudget) {
  pair_->producer().Signal(SIGSTOP);
  v1::GenerateRequest request = ConsumerClient::Request(Prompt(60), "scd", v1::POLICY_REQUIRE);
  request.mutable_transfer()->set_timeout_ms(300);
  const Answer answer = pair_->client().Generate(request);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE) << answer.status.error_message();
  EXPECT_LT(answer.seconds, 1.5);
  pair_->producer().Signal(SIGCONT);
}

TEST_F(TinyPairTest, RestartedProducerIsFoundAgain) {
  const Answer before = Generate("scd", v1::POLICY_REQUIRE);
  ASSERT_TRUE(before.status.ok()) << before.status.error_message();
  ASSERT_TRUE(pair_->RestartProducer().ok());
  Answer after;
  const absl::Time deadline = absl::Now() + absl::Seconds(5);
  do {
    after = Generate("scd", v1::POLICY_REQUIRE);
  } while (!after.status.ok() && absl::Now() < deadline);
  ASSERT_TRUE(after.status.ok()) << after.status.error_message();
  EXPECT_EQ(after.ids, before.ids);
}

// However short ago others found it away.
TEST_F(TinyPairTest, RequiredRequestTriesAProducerThatIsBackAtOnce) {
  const Answer before = Generate("scd", v1::POLICY_REQUIRE);
  ASSERT_TRUE(before.status.ok()) << before.status.error_message();
  for (int round = 0; round < 3; ++round) {
    pair_->KillProducer();
    std::jthread others([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) Generate("scd", v1::POLICY_PREFER);
    });
    // Who requires it hears at once that it is away.
    const Answer away = Generate("scd", v1::POLICY_REQUIRE);
    EXPECT_EQ(away.status.error_code(), grpc::StatusCode::UNAVAILABLE) << away.status.error_message();
    EXPECT_LT(away.seconds, 1.5);
    ASSERT_TRUE(pair_->RestartProducer().ok());
    const Answer after = Generate("scd", v1::POLICY_REQUIRE);
    ASSERT_TRUE(after.status.ok()) << after.status.error_message();
    EXPECT_EQ(after.ids, before.ids);
  }
}

TEST_F(TinyPairTest, SigtermEndsBothInOrder) {
  ASSERT_TRUE(Generate("scd", v1::POLICY_REQUIRE).status.ok());
  for (DaemonProcess* daemon : {&pair_->consumer(), &pair_->producer()}) {
    daemon->Signal(SIGTERM);
    const auto exit_code = daemon->Wait(absl::Seconds(10));
    ASSERT_TRUE(exit_code.ok()) << daemon->Log();
    EXPECT_EQ(*exit_code, 0) << daemon->Log();
  }
}

TEST_F(TinyPairTest, ConsumerKilledFreesTheProducer) {
  pair_->producer().Signal(SIGSTOP);
  std::thread client([&] { EXPECT_FALSE(Generate("scd", v1::POLICY_REQUIRE).status.ok()); });
  while (pair_->client().Info().requests_in_flight() == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  pair_->consumer().Signal(SIGKILL);
  client.join();
  pair_->producer().Signal(SIGCONT);
  const absl::Time deadline = absl::Now() + absl::Seconds(5);
  double in_flight = -1;
  while (absl::Now() < deadline && in_flight != 0)
    in_flight = pair_->producer().Metric("scd_requests_in_flight");
  EXPECT_EQ(in_flight, 0);
}

}  // namespace
}  // namespace scd::testing
