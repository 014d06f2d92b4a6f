// Both daemons as they are shipped, with the real pair.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/daemon_pair.h"
#include "tests/e2e/e2e_paths.h"
#include "tests/support/shared_data.h"

namespace scd::testing {
namespace {

constexpr double kCancelSeconds = 0.2;

// Plain English words of the vocabulary, in an order that repeats only after long.
std::vector<std::int32_t> Prompt(std::size_t length) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < length; ++i)
    ids.push_back(static_cast<std::int32_t>(1000 + (i * 7919) % 20011));
  return ids;
}

class RealPairTest : public ::testing::Test {
 protected:
  // The daemons are started once for all tests of this file.
  static void TearDownTestSuite() { pair_.reset(); }

  void SetUp() override {
    SCD_BASE_MODEL_OR_SKIP(base);
    const auto bundle = SmallBundlePath();
    ASSERT_TRUE(bundle.has_value()) << "the fixture that fits the small bundle did not make it";
    if (pair_ == nullptr) {
      PairFiles files = RealPair(base, *bundle);
      // Prompts of these tests begin alike, and each is to go its whole way.
      files.consumer_settings.emplace_back("kv_cache.prefix_sharing=false");
      auto pair = DaemonPair::Start(files);
      ASSERT_TRUE(pair.ok()) << pair.status();
      pair_ = *std::move(pair);
    }
  }

  static void WaitForWork(std::uint32_t pages) {
    while (pair_->client().Info().kv_pages_used() < pages)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  static std::unique_ptr<DaemonPair> pair_;
};

std::unique_ptr<DaemonPair> RealPairTest::pair_;

TEST_F(RealPairTest, AnswersAQuestionThroughTheCodes) {
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text(
      "Context: The lighthouse of Brier Point was built in 1874 by the engineer Ada Morrow. It stands on a "
      "rock "
      "two miles from the coast, and its lamp was lit with whale oil until 1902, when it was changed to "
      "paraffin. The "
      "last keeper left it in 1961.\nQuestion: Who built the lighthouse?\nAnswer:");
  request.set_max_tokens(8);
  request.add_stop(std::string("\n"));
  request.mutable_transfer()->set_policy(v1::POLICY_REQUIRE);
  const Answer scd = pair_->client().Generate(request, 60);
  ASSERT_TRUE(scd.status.ok()) << scd.status.error_message();
  EXPECT_EQ(scd.report().mode(), "fused");
  EXPECT_EQ(scd.report().transferred_tokens() + scd.report().computed_tokens(), scd.report().prompt_tokens());
  EXPECT_EQ(scd.report().computed_tokens(), 1u + 16 + 1);
  EXPECT_LT(scd.report().code_bytes(), scd.report().raw_kv_bytes());
  request.mutable_transfer()->set_mode("local");
  const Answer local = pair_->client().Generate(request, 60);
  ASSERT_TRUE(local.status.ok()) << local.status.error_message();
  EXPECT_NE(local.text.find("Ada Morrow"), std::string::npos) << local.text;
  EXPECT_TRUE(pair_->BecomesIdle(1));
}

TEST_F(RealPairTest, ChatGoesThroughTheModelsTemplate) {
  v1::GenerateRequest request;
  v1::ChatMessage* message = request.mutable_prompt()->mutable_chat()->add_messages();
  message->set_role(std::string("user"));
  message->set_content("Name three rivers of Europe, each with the sea that it flows into, in one sentence.");
  request.set_max_tokens(4);
  request.mutable_transfer()->set_policy(v1::POLICY_REQUIRE);
  const Answer chat = pair_->client().Generate(request, 60);
  ASSERT_TRUE(chat.status.ok()) << chat.status.error_message();
  EXPECT_EQ(chat.report().mode(), "fused");
  // The same conversation as text: template and special tokens are the client's own.
  const std::string text =
      "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
      "<|im_start|>user\n" +
      message->content() + "<|im_end|>\n<|im_start|>assistant\n";
  request.mutable_prompt()->set_text(text);
  request.mutable_prompt()->set_allow_special_tokens(true);
  const Answer special = pair_->client().Generate(request, 60);
  ASSERT_TRUE(special.status.ok()) << special.status.error_message();
  EXPECT_EQ(special.report().prompt_tokens(), chat.report().prompt_tokens());
  EXPECT_EQ(special.ids, chat.ids);
  // In a plain prompt the spelling of a special token is text.
  request.mutable_prompt()->set_allow_special_tokens(false);
  const Answer plain = pair_->client().Generate(request, 60);
  ASSERT_TRUE(plain.status.ok()) << plain.status.error_message();
  EXPECT_GT(plain.report().prompt_tokens(), chat.report().prompt_tokens() + 10);
}

TEST_F(RealPairTest, FirstFrameArrivesBeforeHalfOfTheProducersLayers) {
  const Answer answer =
      pair_->client().Generate(ConsumerClient::Request(Prompt(256), "scd", v1::POLICY_REQUIRE, 1), 60);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  const v1::TransferReport& report = answer.report();
  const double start_ms = report.transfer_ms() - report.producer_queue_ms() - report.producer_prefill_ms();
  EXPECT_LT(report.first_frame_ms() - start_ms, report.producer_prefill_ms() / 2)
      << "first frame after " << report.first_frame_ms() << " ms, prefill of " << report.producer_prefill_ms()
      << " ms";
}

TEST_F(RealPairTest, DecodeGoesOnWhileALongPrefixIsRebuilt) {
  using Clock = std::chrono::steady_clock;
  SCD_BASE_MODEL_OR_SKIP(base);
  PairFiles files = RealPair(base, *SmallBundlePath());
  files.producer_settings = {"code_store.capacity_mib=256"};
  files.consumer_settings = {"kv_cache.prefix_sharing=false", "producer.transfer_timeout_ms=120000"};
  const auto started = DaemonPair::Start(files);
  ASSERT_TRUE(started.ok()) << started.status();
  DaemonPair& pair = **started;
  const v1::GenerateRequest codes = ConsumerClient::Request(Prompt(2048), "scd", v1::POLICY_REQUIRE, 1);
  const Answer first = pair.client().Generate(codes, 120);  // from now on its codes are stored
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();

  v1::GenerateRequest request = ConsumerClient::Request(Prompt(16), "local", v1::POLICY_OFF, 2000);
  request.set_ignore_eos(true);
  grpc::ClientContext context;
  const auto reader = pair.client().stub().Generate(&context, request);
  std::atomic<bool> rebuilt{false};
  Answer answer;
  std::thread other;
  std::vector<double> alone_ms;
  std::vector<double> beside_ms;
  auto last = Clock::now();
  v1::GenerateResponse response;
  while (!rebuilt && reader->Read(&response)) {
    const auto now = Clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - last).count();
    last = now;
    (other.joinable() ? beside_ms : alone_ms).push_back(ms);
    if (alone_ms.size() < 30 || other.joinable()) continue;
    other = std::thread([&] {
      answer = pair.client().Generate(codes, 120);
      rebuilt = true;
    });
  }
  context.TryCancel();
  ASSERT_TRUE(other.joinable());
  other.join();
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_GT(answer.report().stored_tokens(), 1800u);
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  ASSERT_GT(beside_ms.size(), 5u);
  const double worst = *std::max_element(beside_ms.begin(), beside_ms.end());
  RecordProperty("alone_ms", absl::StrCat(median(alone_ms)));
  RecordProperty("beside_ms", absl::StrCat(median(beside_ms)));
  RecordProperty("worst_ms", absl::StrCat(worst));
  RecordProperty("rebuild_ms", absl::StrCat(answer.report().rebuild_ms()));
  // A step waits for a piece of rebuilding, or of the other's native rows, never for all of it.
  EXPECT_LT(worst, answer.report().first_token_ms());
  EXPECT_LT(median(beside_ms), 10 * median(alone_ms) + 20);
  EXPECT_TRUE(pair.BecomesIdle(kCancelSeconds));
}

TEST_F(RealPairTest, ClientThatGoesAwayDuringALongTransferFreesBothDaemons) {
  grpc::ClientContext context;
  std::thread client([&] {
    const Answer answer = pair_->client().Generate(
        ConsumerClient::Request(Prompt(2048), "scd", v1::POLICY_REQUIRE), 120, &context);
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::CANCELLED) << answer.status.error_message();
  });
  WaitForWork(64);
  // Well inside the prefill, which takes seconds.
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_GT(pair_->producer().Metric("scd_requests_in_flight"), 0) << "the prefill was over already";
  context.TryCancel();
  const auto cancelled = std::chrono::steady_clock::now();
  EXPECT_TRUE(pair_->BecomesIdle(kCancelSeconds));
  RecordProperty("idle_after_ms", absl::StrCat(std::chrono::duration_cast<std::chrono::milliseconds>(
                                                   std::chrono::steady_clock::now() - cancelled)
                                                   .count()));
  client.join();
}

TEST_F(RealPairTest, ClientThatGoesAwayDuringALongNativePrefillFreesIt) {
  grpc::ClientContext context;
  std::thread client([&] {
    const Answer answer = pair_->client().Generate(
        ConsumerClient::Request(Prompt(2048), "local", v1::POLICY_OFF), 120, &context);
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::CANCELLED) << answer.status.error_message();
  });
  WaitForWork(64);
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_EQ(pair_->client().Info().requests_in_flight(), 1u) << "the prefill was over already";
  context.TryCancel();
  EXPECT_TRUE(pair_->BecomesIdle(kCancelSeconds));
  client.join();
}

TEST_F(RealPairTest, ProducerKilledDuringALongPrefill) {
  for (const v1::Policy policy : {v1::POLICY_REQUIRE, v1::POLICY_PREFER}) {
    ASSERT_TRUE(pair_->RestartProducer().ok());
    Answer answer;
    std::thread client([&] {
      answer = pair_->client().Generate(ConsumerClient::Request(Prompt(1024), "scd", policy, 4), 120);
    });
    WaitForWork(32);
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    const auto killed = std::chrono::steady_clock::now();
    pair_->KillProducer();
    client.join();
    if (policy == v1::POLICY_REQUIRE) {
      EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE) << answer.status.error_message();
      EXPECT_FALSE(answer.status.error_message().empty());
      EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(2));
    } else {
      ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
      EXPECT_EQ(answer.report().mode(), "local");
      EXPECT_EQ(answer.report().reason(), "producer_unavailable");
      EXPECT_EQ(answer.report().computed_tokens(), 1024u);
    }
    EXPECT_TRUE(pair_->client().BecomesIdle(0.5));
  }
  ASSERT_TRUE(pair_->RestartProducer().ok());
}

TEST_F(RealPairTest, ScoreOfLocalIsZeroAndOfScdIsNot) {
  v1::ScoreRequest request;
  const auto prompt = Prompt(64);
  request.mutable_prompt()->mutable_tokens()->mutable_ids()->Add(prompt.begin(), prompt.end());
  request.mutable_tokens()->mutable_ids()->Add(prompt.begin(), prompt.begin() + 8);
  request.set_compare_with_native(true);
  request.mutable_transfer()->set_policy(v1::POLICY_REQUIRE);
  request.mutable_transfer()->set_mode("local");
  v1::ScoreResponse local;
  grpc::Status status = pair_->client().Score(request, &local, 60);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(local.positions_size(), 9);
  for (const v1::PositionScore& position : local.positions()) EXPECT_LT(position.kl(), 1e-9);
  request.mutable_transfer()->set_mode("scd");
  v1::ScoreResponse scd;
  status = pair_->client().Score(request, &scd, 60);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(scd.positions_size(), 9);
  double kl = 0;
  for (const v1::PositionScore& position : scd.positions()) kl += position.kl();
  EXPECT_GT(kl, 1e-6);
  EXPECT_EQ(scd.report().transferred_tokens(), 64u - 18);
}

}  // namespace
}  // namespace scd::testing
