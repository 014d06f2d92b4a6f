// Prompts that begin alike, over loopback: who computes, transfers and takes over what, and that nobody's
// answer changes by it.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "tests/consumer/scoring.h"

namespace scd::testing {
namespace {

constexpr char kSharing[] = "pages: 64, page_tokens: 16";
constexpr std::uint32_t kDocument = 100;  // six whole blocks
constexpr std::uint32_t kQuestion = 30;
constexpr std::uint32_t kPrompt = kDocument + kQuestion;
constexpr std::uint32_t kCoded = kPrompt - 1 - 2;  // end of the codes: native tail 2

std::vector<std::int32_t> WithQuestion(unsigned seed) {
  auto prompt = ConsumerRig::Prompt(kDocument, 5);
  const auto question = ConsumerRig::Prompt(kQuestion, seed);
  prompt.insert(prompt.end(), question.begin(), question.end());
  return prompt;
}

void ExpectTokens(const v1::TransferReport& report, std::uint32_t cached, std::uint32_t transferred) {
  EXPECT_EQ(report.cached_tokens(), cached);
  EXPECT_EQ(report.transferred_tokens(), transferred);
  EXPECT_EQ(report.cached_tokens() + report.transferred_tokens() + report.computed_tokens(),
            report.prompt_tokens());
}

class PrefixSharingTest : public ::testing::Test {
 protected:
  Answer Ask(const std::vector<std::int32_t>& prompt, const std::string& mode, v1::Policy policy,
             bool shares = true) {
    v1::GenerateRequest request = ConsumerRig::Request(prompt, mode, policy, 12);
    request.mutable_transfer()->set_no_prefix_cache(!shares);
    const Answer answer = rig_.Generate(request);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    return answer;
  }
  Answer Scd(const std::vector<std::int32_t>& prompt) { return Ask(prompt, "scd", v1::POLICY_REQUIRE); }
  std::vector<std::int32_t> Truth(const std::vector<std::int32_t>& prompt) {
    return Ask(prompt, "local", v1::POLICY_OFF, false).ids;
  }

  ConsumerRig rig_{{.consumer_yaml = "max_uncoded_tokens: 0\n", .kv_cache = kSharing}};
};

TEST_F(PrefixSharingTest, OnlyWhatIsMissingIsTransferred) {
  ExpectTokens(Scd(WithQuestion(7)).report(), 0, kCoded - 1);
  const Answer other = Scd(WithQuestion(8));
  ExpectTokens(other.report(), 96, kCoded - 96);
  EXPECT_EQ(other.report().mode(), "scd");
  EXPECT_EQ(other.ids, Truth(WithQuestion(8)));
  const Answer again = Scd(WithQuestion(8));
  ExpectTokens(again.report(), 112, kCoded - 112);
  EXPECT_EQ(again.ids, other.ids);
  EXPECT_EQ(rig_.consumer().Metric("scd_prompt_tokens_total{source=\"cached\"}"), 96 + 112);
  EXPECT_EQ(rig_.Info().kv_pages_cached(), 8);
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST_F(PrefixSharingTest, NothingMissingIsNoCall) {
  auto prompt = ConsumerRig::Prompt(64 + 3, 5);  // the codes end with the fourth block
  ExpectTokens(Scd(prompt).report(), 0, 63);
  EXPECT_EQ(rig_.hostile().num_prefill_calls(), 1);
  prompt.back() = 3;
  const Answer answer = Scd(prompt);
  ExpectTokens(answer.report(), 64, 0);
  EXPECT_EQ(answer.report().mode(), "scd");
  EXPECT_EQ(answer.report().reason(), "");
  EXPECT_EQ(answer.report().received_bytes(), 0u);
  EXPECT_EQ(answer.ids, Truth(prompt));
  EXPECT_EQ(rig_.hostile().num_prefill_calls(), 1);
}

TEST_F(PrefixSharingTest, NativePromptsShareTheirOwnBlocks) {
  ExpectTokens(Scd(WithQuestion(7)).report(), 0, kCoded - 1);
  ExpectTokens(Ask(WithQuestion(7), "local", v1::POLICY_OFF).report(), 0, 0);
  const Answer other = Ask(WithQuestion(8), "local", v1::POLICY_OFF);
  ExpectTokens(other.report(), 96, 0);
  EXPECT_EQ(other.report().mode(), "local");
  EXPECT_EQ(other.ids, Truth(WithQuestion(8)));
  const auto whole = ConsumerRig::Prompt(96, 5);  // its last position lies in a known block
  const Answer last = Ask(whole, "local", v1::POLICY_OFF);
  ExpectTokens(last.report(), 95, 0);
  EXPECT_EQ(last.ids, Truth(whole));
  // A policy that asks for native state takes native blocks over too.
  ExpectTokens(Ask(WithQuestion(8), "scd", v1::POLICY_OFF).report(), 128, 0);
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST_F(PrefixSharingTest, MeasurementsKeepOutOfIt) {
  v1::GenerateRequest fresh = ConsumerRig::Request(WithQuestion(7), "scd", v1::POLICY_REQUIRE);
  fresh.mutable_transfer()->set_no_code_store(true);
  ExpectTokens(rig_.Generate(fresh).report(), 0, kCoded - 1);
  EXPECT_EQ(rig_.Info().kv_pages_cached(), 0u);
  ExpectTokens(Scd(WithQuestion(7)).report(), 0, kCoded - 1);
  ExpectTokens(rig_.Generate(fresh).report(), 0, kCoded - 1);
  ExpectTokens(Ask(WithQuestion(7), "scd", v1::POLICY_REQUIRE, false).report(), 0, kCoded - 1);
}

TEST_F(PrefixSharingTest, OtherPlansAndModesAreOtherState) {
  ExpectTokens(Scd(WithQuestion(7)).report(), 0, kCoded - 1);
  for (int change = 0; change < 4; ++change) {
    v1::GenerateRequest request = ConsumerRig::Request(WithQuestion(7), "scd", v1::POLICY_REQUIRE);
    v1::PlanOverride& plan = *request.mutable_transfer()->mutable_plan();
    if (change == 0) plan.set_rank_k(3);
    if (change == 1) plan.set_codec(v1::CODEC_BF16);
    if (change == 2) plan.set_native_head(2);
    if (change == 3) request.mutable_transfer()->set_mode("reuse");
    const Answer answer = rig_.Generate(request);
    EXPECT_EQ(answer.report().cached_tokens(), 0u) << change;
  }
  v1::GenerateRequest tail = ConsumerRig::Request(WithQuestion(7), "scd", v1::POLICY_REQUIRE);
  tail.mutable_transfer()->mutable_plan()->set_native_tail(40);
  ExpectTokens(rig_.Generate(tail).report(), 80, 9);  // codes end at 89
}

TEST_F(PrefixSharingTest, RivalModesGoOnOverKnownBlocks) {
  for (const std::string mode : {"raw", "raw_rerope", "selective"}) {
    SCOPED_TRACE(mode);
    for (const unsigned question : {7u, 8u}) {
      v1::GenerateRequest request =
          ConsumerRig::Request(WithQuestion(question), mode, v1::POLICY_REQUIRE, 12);
      request.mutable_transfer()->mutable_plan()->set_codec(v1::CODEC_F32);
      const Answer answer = rig_.Generate(request);
      ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
      EXPECT_EQ(answer.ids, Truth(WithQuestion(question)));
      EXPECT_EQ(answer.report().cached_tokens(), question == 7 ? 0u : 96u);
    }
  }
}

TEST_F(PrefixSharingTest, AFailedTransferLeavesNothingAndTheRestGoesOnOverWhatIsKnown) {
  rig_.hostile().SetScript(
      [](std::vector<v1::PrefillResponse> honest, HostileProducer::Writer& writer, grpc::ServerContext&) {
        honest.resize(honest.size() - 2);  // all but the last frames
        HostileProducer::SendAll(honest, writer);
        return grpc::Status(grpc::StatusCode::INTERNAL, "broken");
      });
  const Answer failed = Ask(WithQuestion(7), "scd", v1::POLICY_PREFER);
  ExpectTokens(failed.report(), 0, 0);
  EXPECT_EQ(failed.report().mode(), "local");
  EXPECT_EQ(rig_.Info().kv_pages_cached(), 0u);

  rig_.hostile().SetScript({});
  ExpectTokens(Scd(WithQuestion(7)).report(), 0, kCoded - 1);
  rig_.StopProducer();
  const Answer rest = Ask(WithQuestion(8), "scd", v1::POLICY_PREFER);
  ExpectTokens(rest.report(), 96, 0);
  EXPECT_EQ(rest.report().mode(), "scd");
  EXPECT_NE(rest.report().reason(), "");
  EXPECT_EQ(rest.ids, Truth(WithQuestion(8)));
  EXPECT_EQ(rig_.Info().kv_pages_cached(), 7u);  // those of the first question alone
  const Answer required = rig_.Generate(ConsumerRig::Request(WithQuestion(9), "scd", v1::POLICY_REQUIRE));
  EXPECT_FALSE(required.status.ok());
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST_F(PrefixSharingTest, ComparisonsAreWithATrulyNativeRun) {
  v1::ScoreRequest request = ScoreRequestFor(WithQuestion(7), ConsumerRig::Prompt(20, 9), "scd", true);
  request.mutable_transfer()->mutable_plan()->set_rank_k(2);
  request.mutable_transfer()->mutable_plan()->set_rank_v(2);
  request.mutable_transfer()->mutable_plan()->mutable_patch_layers();
  std::vector<v1::ScoreResponse> scored(2);
  for (v1::ScoreResponse& response : scored) {
    ASSERT_TRUE(rig_.Score(request, &response).ok());
  }
  EXPECT_EQ(scored[0].report().cached_tokens(), 0u);
  EXPECT_EQ(scored[1].report().cached_tokens(), 112u);
  double kl = 0;
  for (int i = 0; i < scored[0].positions_size(); ++i) {
    EXPECT_NEAR(scored[0].positions(i).kl(), scored[1].positions(i).kl(), 1e-3);
    EXPECT_EQ(scored[0].positions(i).native_logprob(), scored[1].positions(i).native_logprob());
    kl += scored[0].positions(i).kl();
  }
  EXPECT_GT(kl, 1e-6);
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST_F(PrefixSharingTest, EightClientsWithOnePrefixCostOneTransferOfIt) {
  std::vector<std::vector<std::int32_t>> truth;
  for (unsigned i = 0; i < 8; ++i) truth.push_back(Truth(WithQuestion(20 + i)));
  for (const std::string mode : {"scd", "local"}) {
    SCOPED_TRACE(mode);
    std::vector<Answer> answers(8);
    std::vector<std::thread> clients;
    for (unsigned i = 0; i < 8; ++i) {
      clients.emplace_back([&, i] { answers[i] = Ask(WithQuestion(20 + i), mode, v1::POLICY_UNSPECIFIED); });
    }
    for (std::thread& client : clients) client.join();
    std::uint32_t cached = 0;
    for (unsigned i = 0; i < 8; ++i) {
      EXPECT_EQ(answers[i].ids, truth[i]);
      EXPECT_EQ(answers[i].report().mode(), mode);
      cached += answers[i].report().cached_tokens();
    }
    EXPECT_EQ(cached, 7 * 96u);
  }
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST_F(PrefixSharingTest, FollowersGoOnWhenTheFirstClientLeaves) {
  absl::Notification asked;
  std::atomic<bool> first{true};
  rig_.hostile().SetScript([&](const std::vector<v1::PrefillResponse>& honest,
                               HostileProducer::Writer& writer, grpc::ServerContext& context) {
    if (first.exchange(false)) {
      asked.Notify();
      return HostileProducer::Hang(context);
    }
    return HostileProducer::SendAll(honest, writer);
  });
  grpc::ClientContext context;
  std::thread leaving([&] {
    const auto reader =
        rig_.stub().Generate(&context, ConsumerRig::Request(WithQuestion(1), "scd", v1::POLICY_REQUIRE));
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  });
  asked.WaitForNotification();
  std::vector<Answer> answers(4);
  std::vector<std::thread> clients;
  for (unsigned i = 0; i < 4; ++i) {
    clients.emplace_back([&, i] { answers[i] = Scd(WithQuestion(2 + i)); });
  }
  while (rig_.Info().requests_in_flight() < 5) std::this_thread::yield();
  EXPECT_EQ(rig_.hostile().num_prefill_calls(), 1);
  context.TryCancel();
  leaving.join();
  for (std::thread& client : clients) client.join();
  std::uint32_t cached = 0;
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_EQ(answers[i].ids, Truth(WithQuestion(2 + i)));
    cached += answers[i].report().cached_tokens();
  }
  EXPECT_EQ(cached, 3 * 96u);
  EXPECT_EQ(rig_.hostile().num_prefill_calls(), 5);
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST(PrefixSharingUncodedTest, AShortRestIsComputedHere) {
  ConsumerRig rig({.consumer_yaml = "max_uncoded_tokens: 31\n", .kv_cache = kSharing});
  EXPECT_EQ(
      rig.Generate(ConsumerRig::Request(WithQuestion(7), "scd", v1::POLICY_REQUIRE)).report().cached_tokens(),
      0u);
  const Answer answer = rig.Generate(ConsumerRig::Request(WithQuestion(8), "scd", v1::POLICY_REQUIRE));
  ExpectTokens(answer.report(), 96, 0);  // 31 more would have been coded
  EXPECT_EQ(answer.report().mode(), "scd");
  EXPECT_EQ(rig.hostile().num_prefill_calls(), 1);
  EXPECT_EQ(answer.ids, rig.Generate(ConsumerRig::Request(WithQuestion(8), "local", v1::POLICY_OFF)).ids);
}

TEST(PreemptionServiceTest, AnswersAreTheSameWithFewPages) {
  ConsumerRig rig({.kv_cache = "pages: 10, page_tokens: 8, prefix_sharing: false"});
  ConsumerRig roomy({.kv_cache = kSharing});
  std::vector<Answer> answers(6);
  std::vector<std::thread> clients;
  const auto request = [](unsigned i) {
    return ConsumerRig::Request(ConsumerRig::Prompt(20, 30 + i), i % 2 == 0 ? "scd" : "local",
                                v1::POLICY_UNSPECIFIED, 50);
  };
  for (unsigned i = 0; i < 6; ++i) {
    clients.emplace_back([&, i] { answers[i] = rig.Generate(request(i)); });
  }
  for (std::thread& client : clients) client.join();
  for (unsigned i = 0; i < 6; ++i) {
    ASSERT_TRUE(answers[i].status.ok()) << answers[i].status.error_message();
    EXPECT_EQ(answers[i].ids, roomy.Generate(request(i)).ids);
  }
  EXPECT_GT(rig.consumer().Metric("scd_preemptions_total"), 0);
  EXPECT_GT(rig.consumer().Metric("scd_kv_swapped_bytes_total"), 0);
  EXPECT_EQ(rig.consumer().Metric("scd_requests_swapped"), 0);
  EXPECT_TRUE(rig.BecomesIdle(1));
}

}  // namespace
}  // namespace scd::testing
