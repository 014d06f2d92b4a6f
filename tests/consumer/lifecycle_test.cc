// Clients that go away, deadlines, producers that come and go, and a server that goes down while it works.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "tests/consumer/consumer_rig.h"

namespace scd::testing {
namespace {

constexpr std::size_t kPromptTokens = 60;
constexpr double kCancelSeconds = 0.2;

using Responses = std::vector<v1::PrefillResponse>;

// Sends `count` messages, tells so, and does nothing more until the caller is gone; then tells that.
struct Hanging {
  explicit Hanging(std::size_t messages) : count(messages) {}

  HostileProducer::Script Script() {
    return [this](Responses honest, HostileProducer::Writer& writer, grpc::ServerContext& context) {
      honest.resize(count);
      HostileProducer::SendAll(honest, writer);
      sent.Notify();
      const grpc::Status status = HostileProducer::Hang(context);
      released.Notify();
      return status;
    };
  }

  const std::size_t count;
  absl::Notification sent;
  absl::Notification released;
};

class LifecycleTest : public ::testing::Test {
 protected:
  ConsumerRig rig_;
};

TEST_F(LifecycleTest, ClientThatGoesAwayDuringATransferFreesBothSides) {
  for (const std::size_t messages : {0u, 1u, 4u}) {
    Hanging hanging(messages);
    rig_.hostile().SetScript(hanging.Script());
    grpc::ClientContext context;
    std::thread client([&] {
      const auto request =
          ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "scd", v1::POLICY_REQUIRE);
      const auto reader = rig_.stub().Generate(&context, request);
      v1::GenerateResponse response;
      while (reader->Read(&response)) {
      }
      EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
    });
    hanging.sent.WaitForNotification();
    EXPECT_GT(rig_.Info().kv_pages_used(), 0u);
    EXPECT_EQ(rig_.Info().requests_in_flight(), 1u);
    context.TryCancel();
    EXPECT_TRUE(rig_.BecomesIdle(kCancelSeconds));
    EXPECT_TRUE(hanging.released.WaitForNotificationWithTimeout(absl::Seconds(kCancelSeconds)));
    client.join();
  }
}

TEST_F(LifecycleTest, ClientThatGoesAwayDuringDecodeFreesItsPages) {
  grpc::ClientContext context;
  const auto request =
      ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "scd", v1::POLICY_REQUIRE, 400);
  const auto reader = rig_.stub().Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  ASSERT_TRUE(reader->Read(&response));
  context.TryCancel();
  EXPECT_TRUE(rig_.BecomesIdle(kCancelSeconds));
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(LifecycleTest, DeadlineOfTheCallEndsItsTransfer) {
  Hanging hanging(3);
  rig_.hostile().SetScript(hanging.Script());
  const Answer answer =
      rig_.Generate(ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "scd", v1::POLICY_PREFER), 0.3);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(rig_.BecomesIdle(kCancelSeconds));
  EXPECT_TRUE(hanging.released.WaitForNotificationWithTimeout(absl::Seconds(kCancelSeconds)));
}

TEST_F(LifecycleTest, TimeBudgetOfTheRequestIsKept) {
  Hanging hanging(3);
  rig_.hostile().SetScript(hanging.Script());
  v1::GenerateRequest request =
      ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "scd", v1::POLICY_PREFER);
  request.mutable_transfer()->set_timeout_ms(150);
  const Answer answer = rig_.Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.report().reason(), "deadline");
  EXPECT_LT(answer.seconds, 1.0);
  EXPECT_TRUE(hanging.released.WaitForNotificationWithTimeout(absl::Seconds(1)));
}

TEST_F(LifecycleTest, HandshakeIsMadeOnceForAConnection) {
  for (int i = 0; i < 3; ++i) {
    const Answer answer =
        rig_.Generate(ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "scd", v1::POLICY_REQUIRE));
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  }
  EXPECT_EQ(rig_.hostile().num_info_calls(), 1);
  EXPECT_EQ(rig_.hostile().num_prefill_calls(), 3);
}

TEST_F(LifecycleTest, ProducerOfAnotherIdentityIsRefused) {
  rig_.hostile().SetInfoScript(
      [](v1::ProducerInfo& info) { info.mutable_model()->set_digest("0123456789abcdef"); });
  const auto prompt = ConsumerRig::Prompt(kPromptTokens);
  const Answer require = rig_.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_REQUIRE));
  EXPECT_EQ(require.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(require.status.error_message().find("handshake"), std::string::npos)
      << require.status.error_message();
  const Answer prefer = rig_.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_PREFER));
  ASSERT_TRUE(prefer.status.ok());
  EXPECT_EQ(prefer.report().reason(), "handshake");
  EXPECT_EQ(rig_.hostile().num_prefill_calls(), 0);
  // Once it is the right one it is taken.
  rig_.hostile().SetInfoScript({});
  EXPECT_TRUE(rig_.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_REQUIRE)).status.ok());
}

TEST_F(LifecycleTest, ShutdownEndsWhatRunsWithUnavailable) {
  Hanging hanging(3);
  rig_.hostile().SetScript(hanging.Script());
  Answer waiting;
  Answer decoding;
  std::thread first([&] {
    waiting =
        rig_.Generate(ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "scd", v1::POLICY_PREFER));
  });
  hanging.sent.WaitForNotification();
  std::thread second([&] {
    decoding =
        rig_.Generate(ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "local", v1::POLICY_OFF, 450));
  });
  while (rig_.consumer().num_in_flight() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto start = std::chrono::steady_clock::now();
  rig_.consumer().Shutdown(absl::Milliseconds(20));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  first.join();
  second.join();
  EXPECT_EQ(waiting.status.error_code(), grpc::StatusCode::UNAVAILABLE) << waiting.status.error_message();
  EXPECT_NE(waiting.status.error_message().find("shutting down"), std::string::npos);
  // The other may have been done in time.
  EXPECT_TRUE(decoding.status.ok() || decoding.status.error_code() == grpc::StatusCode::UNAVAILABLE)
      << decoding.status.error_message();
  EXPECT_TRUE(hanging.released.WaitForNotificationWithTimeout(absl::Seconds(1)));
  EXPECT_EQ(rig_.consumer().Metric("scd_kv_pages_used"), 0);
}

TEST(SlowClientTest, IsEndedAndHarmsNobody) {
  ConsumerRig rig({.consumer_yaml = "limits: {max_unsent_tokens: 8}\n"});
  v1::GenerateRequest request = ConsumerRig::Request(ConsumerRig::Prompt(20), "local", v1::POLICY_OFF, 480);
  request.set_top_logprobs(20);
  grpc::ClientContext context;
  const auto reader = rig.stub().Generate(&context, request);
  // It reads nothing, so that the connection's buffers fill up; meanwhile another is served.
  const Answer other =
      rig.Generate(ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "scd", v1::POLICY_REQUIRE));
  EXPECT_TRUE(other.status.ok()) << other.status.error_message();
  EXPECT_TRUE(rig.BecomesIdle(10));
  v1::GenerateResponse response;
  int tokens = 0;
  bool done = false;
  while (reader->Read(&response)) {
    tokens += response.has_token();
    done |= response.has_done();
  }
  const grpc::Status status = reader->Finish();
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(done);
  EXPECT_LT(tokens, 480);
}

TEST(ProducerRestartTest, IsPickedUpWithoutRestartingTheConsumer) {
  ConsumerRig rig;
  const auto prompt = ConsumerRig::Prompt(kPromptTokens);
  const auto require = ConsumerRig::Request(prompt, "scd", v1::POLICY_REQUIRE);
  const Answer before = rig.Generate(require);
  ASSERT_TRUE(before.status.ok()) << before.status.error_message();

  const int port = rig.producer().port();
  rig.StopProducer();
  const Answer down = rig.Generate(require);
  EXPECT_EQ(down.status.error_code(), grpc::StatusCode::UNAVAILABLE) << down.status.error_message();
  EXPECT_LT(down.seconds, 2.5);
  const Answer native = rig.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_PREFER));
  ASSERT_TRUE(native.status.ok()) << native.status.error_message();
  EXPECT_EQ(native.report().reason(), "producer_unavailable");
  EXPECT_EQ(native.ids, before.ids);

  rig.StartProducer(port);
  const auto start = std::chrono::steady_clock::now();
  Answer after;
  do {
    after = rig.Generate(require);
  } while (!after.status.ok() && std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  ASSERT_TRUE(after.status.ok()) << after.status.error_message();
  EXPECT_EQ(after.ids, before.ids);
  EXPECT_TRUE(rig.BecomesIdle(1));
}

}  // namespace
}  // namespace scd::testing
