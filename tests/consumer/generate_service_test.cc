// Consumer.Generate over loopback with an honest producer.
#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/consumer/consumer_rig.h"

namespace scd::testing {
namespace {

constexpr std::size_t kPromptTokens = 60;
constexpr std::uint32_t kTransferred = kPromptTokens - 1 - 1 - 2;  // without head, last token and tail

class GenerateServiceTest : public ::testing::Test {
 protected:
  ConsumerRig rig_;
};

TEST_F(GenerateServiceTest, AnswersThroughTheCodesEqualTheModelsOwn) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    const auto prompt = ConsumerRig::Prompt(kPromptTokens, seed);
    const Answer local = rig_.Generate(ConsumerRig::Request(prompt, "local", v1::POLICY_REQUIRE));
    const Answer scd = rig_.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_REQUIRE));
    ASSERT_TRUE(local.status.ok()) << local.status.error_message();
    ASSERT_TRUE(scd.status.ok()) << scd.status.error_message();
    EXPECT_EQ(scd.ids.size(), 8u);
    EXPECT_EQ(scd.ids, local.ids);
    EXPECT_EQ(scd.text, local.text);
    EXPECT_EQ(local.report().mode(), "local");
    EXPECT_EQ(local.report().computed_tokens(), kPromptTokens);
    EXPECT_EQ(local.report().received_bytes(), 0u);
  }
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST_F(GenerateServiceTest, AnswersDependOnTheCodes) {
  int different = 0;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    const auto prompt = ConsumerRig::Prompt(kPromptTokens, seed);
    v1::GenerateRequest request = ConsumerRig::Request(prompt, "scd", v1::POLICY_REQUIRE);
    request.mutable_transfer()->mutable_plan()->set_rank_k(2);
    request.mutable_transfer()->mutable_plan()->set_rank_v(2);
    request.mutable_transfer()->mutable_plan()->mutable_patch_layers();
    const Answer coarse = rig_.Generate(request);
    ASSERT_TRUE(coarse.status.ok()) << coarse.status.error_message();
    different += coarse.ids != rig_.Generate(ConsumerRig::Request(prompt, "local", v1::POLICY_REQUIRE)).ids;
  }
  EXPECT_EQ(different, 3) << "no test here could tell a good KV cache from a bad one";
}

TEST_F(GenerateServiceTest, ReportSaysWhatHappened) {
  const Answer scd =
      rig_.Generate(ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "scd", v1::POLICY_REQUIRE));
  ASSERT_TRUE(scd.status.ok()) << scd.status.error_message();
  const v1::TransferReport& report = scd.report();
  EXPECT_EQ(report.mode(), "scd");
  EXPECT_EQ(report.reason(), "");
  EXPECT_EQ(report.prompt_tokens(), kPromptTokens);
  EXPECT_EQ(report.transferred_tokens(), kTransferred);
  EXPECT_EQ(report.computed_tokens(), kPromptTokens - kTransferred);
  // Identity bundle in f32: three Reuse layers of K and V at rank 16, one Patch layer at rank 64.
  EXPECT_EQ(report.code_bytes(), kTransferred * (3 * (16 + 16) + 64) * 4);
  EXPECT_GT(report.received_bytes(), report.code_bytes());
  EXPECT_EQ(report.raw_kv_bytes(), kPromptTokens * 4u * 2 * 16 * 2);
  EXPECT_GT(report.producer_prefill_ms(), 0);
  EXPECT_GT(report.first_frame_ms(), 0);
  EXPECT_GE(report.transfer_ms(), report.first_frame_ms());
  EXPECT_GE(report.first_token_ms(), report.transfer_ms());
  EXPECT_GE(report.total_ms(), report.first_token_ms());
  EXPECT_GT(report.rebuild_ms(), 0);
  EXPECT_EQ(scd.done.num_tokens(), 8u);
  EXPECT_GT(scd.done.time_per_output_token_ms(), 0);
  EXPECT_EQ(scd.done.finish_reason(), v1::FINISH_REASON_MAX_TOKENS);
}

TEST_F(GenerateServiceTest, PlanOfTheRequestIsServed) {
  const auto prompt = ConsumerRig::Prompt(kPromptTokens);
  const Answer local = rig_.Generate(ConsumerRig::Request(prompt, "local", v1::POLICY_REQUIRE));
  v1::GenerateRequest request = ConsumerRig::Request(prompt, "scd", v1::POLICY_REQUIRE);
  v1::PlanOverride* plan = request.mutable_transfer()->mutable_plan();
  plan->mutable_patch_layers();
  plan->set_native_head(3);
  plan->set_native_tail(0);
  const Answer reuse_only = rig_.Generate(request);
  ASSERT_TRUE(reuse_only.status.ok()) << reuse_only.status.error_message();
  EXPECT_EQ(reuse_only.ids, local.ids);
  EXPECT_EQ(reuse_only.report().transferred_tokens(), kPromptTokens - 4);
  EXPECT_EQ(reuse_only.report().code_bytes(), (kPromptTokens - 4) * 4 * (16 + 16) * 4);

  plan->mutable_patch_layers()->add_layers(2);
  plan->mutable_patch_layers()->add_layers(1);
  const Answer two_patched = rig_.Generate(request);
  ASSERT_TRUE(two_patched.status.ok()) << two_patched.status.error_message();
  EXPECT_EQ(two_patched.ids, local.ids);
  EXPECT_EQ(two_patched.report().code_bytes(), (kPromptTokens - 4) * (2 * (16 + 16) + 2 * 64) * 4);
}

TEST_F(GenerateServiceTest, PlansThatTheBundleCannotDoAreRefusedByField) {
  v1::GenerateRequest request =
      ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "scd", v1::POLICY_PREFER);
  request.mutable_transfer()->mutable_plan()->set_rank_k(17);
  const Answer answer = rig_.Generate(request);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(answer.status.error_message().find("transfer.plan.rank_k"), std::string::npos)
      << answer.status.error_message();
  EXPECT_NE(answer.status.error_message().find("16"), std::string::npos) << answer.status.error_message();
}

TEST_F(GenerateServiceTest, ShortPromptIsNativeEvenWhereCodesAreRequired) {
  const Answer answer =
      rig_.Generate(ConsumerRig::Request(ConsumerRig::Prompt(4), "scd", v1::POLICY_REQUIRE));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.report().mode(), "local");
  EXPECT_EQ(answer.report().reason(), "short_prompt");
  EXPECT_EQ(answer.report().computed_tokens(), 4u);
  EXPECT_EQ(rig_.consumer().Metric("scd_fallbacks_total{reason=\"short_prompt\"}"), 1);
  // One token more, and there is something to transfer.
  const Answer longer =
      rig_.Generate(ConsumerRig::Request(ConsumerRig::Prompt(5), "scd", v1::POLICY_REQUIRE));
  ASSERT_TRUE(longer.status.ok()) << longer.status.error_message();
  EXPECT_EQ(longer.report().transferred_tokens(), 1u);
}

TEST_F(GenerateServiceTest, PolicyOffNeverAsksTheProducer) {
  const Answer answer =
      rig_.Generate(ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "scd", v1::POLICY_OFF));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.report().mode(), "local");
  EXPECT_EQ(answer.report().reason(), "policy_off");
  EXPECT_EQ(rig_.hostile().num_info_calls(), 0);
  EXPECT_EQ(rig_.hostile().num_prefill_calls(), 0);
}

TEST_F(GenerateServiceTest, WrongFieldsAreNamed) {
  struct Case {
    std::string field;
    std::function<void(v1::GenerateRequest&)> change;
  };
  const std::vector<Case> cases = {
      {"prompt", [](v1::GenerateRequest& r) { r.clear_prompt(); }},
      {"prompt", [](v1::GenerateRequest& r) { r.mutable_prompt()->mutable_tokens()->clear_ids(); }},
      {"prompt.tokens.ids[2]",
       [](v1::GenerateRequest& r) { r.mutable_prompt()->mutable_tokens()->set_ids(2, -1); }},
      {"prompt.tokens.ids[0]",
       [](v1::GenerateRequest& r) { r.mutable_prompt()->mutable_tokens()->set_ids(0, 1024); }},
      {"prompt: has 600 tokens",
       [](v1::GenerateRequest& r) {
         for (int i = 0; i < 540; ++i) r.mutable_prompt()->mutable_tokens()->add_ids(5);
       }},
      {"prompt.text",
       [](v1::GenerateRequest& r) { r.mutable_prompt()->set_text(std::string(1 << 20, 'a')); }},
      {"prompt.chat", [](v1::GenerateRequest& r) { r.mutable_prompt()->mutable_chat(); }},
      {"max_tokens", [](v1::GenerateRequest& r) { r.set_max_tokens(4097); }},
      {"max_tokens", [](v1::GenerateRequest& r) { r.set_max_tokens(453); }},
      {"temperature", [](v1::GenerateRequest& r) { r.mutable_sampling()->set_temperature(-1); }},
      {"top_p", [](v1::GenerateRequest& r) { r.mutable_sampling()->set_top_p(0); }},
      {"top_k", [](v1::GenerateRequest& r) { r.mutable_sampling()->set_top_k(4000000000u); }},
      {"top_logprobs", [](v1::GenerateRequest& r) { r.set_top_logprobs(21); }},
      {"stop[0]", [](v1::GenerateRequest& r) { r.add_stop(std::string("")); }},
      {"stop:",
       [](v1::GenerateRequest& r) {
         for (int i = 0; i < 17; ++i) r.add_stop(std::string("x"));
       }},
      {"stop_token_ids[0]", [](v1::GenerateRequest& r) { r.add_stop_token_ids(70000); }},
      {"transfer.mode", [](v1::GenerateRequest& r) { r.mutable_transfer()->set_mode("teleport"); }},
      {"transfer.policy",
       [](v1::GenerateRequest& r) { r.mutable_transfer()->set_policy(static_cast<v1::Policy>(9)); }},
      {"transfer.plan.patch_layers",
       [](v1::GenerateRequest& r) {
         r.mutable_transfer()->mutable_plan()->mutable_patch_layers()->add_layers(3);
       }},
      {"request_id", [](v1::GenerateRequest& r) { r.set_request_id(std::string(129, 'r')); }},
  };
  for (const Case& c : cases) {
    v1::GenerateRequest request =
        ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "scd", v1::POLICY_PREFER);
    c.change(request);
    const Answer answer = rig_.Generate(request);
    EXPECT_TRUE(answer.status.error_code() == grpc::StatusCode::INVALID_ARGUMENT ||
                answer.status.error_code() == grpc::StatusCode::FAILED_PRECONDITION)
        << c.field << ": " << answer.status.error_code();
    EXPECT_NE(answer.status.error_message().find(c.field), std::string::npos)
        << c.field << " is not in: " << answer.status.error_message();
    EXPECT_TRUE(answer.ids.empty());
  }
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST_F(GenerateServiceTest, TextPromptsAreTokenizedByTheServer) {
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text("The year 2024 had 366 days; pi is 3.14159.");
  request.set_max_tokens(4);
  request.set_ignore_eos(true);
  const Answer text = rig_.Generate(request);
  ASSERT_TRUE(text.status.ok()) << text.status.error_message();
  const std::vector<std::int32_t> ids = {54, 260, 625, 223, 20,  18,  20, 22, 437, 223, 21, 24, 24, 780,
                                         85, 29,  294, 75,  376, 223, 21, 16, 19,  22,  19, 23, 27, 16};
  EXPECT_EQ(text.report().prompt_tokens(), ids.size());
  EXPECT_EQ(text.report().mode(), "fused");
  EXPECT_EQ(text.ids, rig_.Generate(ConsumerRig::Request(ids, "local", v1::POLICY_OFF, 4)).ids);
}

TEST_F(GenerateServiceTest, StopStringsEndTheAnswerAndAreNoPartOfIt) {
  const auto prompt = ConsumerRig::Prompt(kPromptTokens);
  v1::GenerateRequest request = ConsumerRig::Request(prompt, "local", v1::POLICY_OFF, 40);
  const Answer whole = rig_.Generate(request);
  ASSERT_TRUE(whole.status.ok());
  ASSERT_GT(whole.text.size(), 12u);
  // A stop from the middle of the text that begins within one token and ends within another.
  std::size_t begin = whole.tokens[0].text().size() + whole.tokens[1].text().size();
  while ((static_cast<unsigned char>(whole.text[begin]) & 0xC0) == 0x80) ++begin;
  std::size_t end = begin + 5;
  while (end < whole.text.size() && (static_cast<unsigned char>(whole.text[end]) & 0xC0) == 0x80) ++end;
  const std::string stop = whole.text.substr(begin, end - begin);
  request.add_stop(std::string("never in the text, surely"));
  request.add_stop(stop);
  const Answer stopped = rig_.Generate(request);
  ASSERT_TRUE(stopped.status.ok()) << stopped.status.error_message();
  EXPECT_EQ(stopped.done.finish_reason(), v1::FINISH_REASON_STOP_TEXT);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_LT(stopped.done.num_tokens(), 40u);
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST_F(GenerateServiceTest, HeldBackTextIsGivenAtTheEnd) {
  const auto prompt = ConsumerRig::Prompt(kPromptTokens);
  v1::GenerateRequest request = ConsumerRig::Request(prompt, "local", v1::POLICY_OFF, 12);
  const Answer whole = rig_.Generate(request);
  ASSERT_TRUE(whole.status.ok());
  // The text's last bytes begin this stop, which never becomes complete.
  request.add_stop(whole.text.substr(whole.text.size() - 1) + "!never!");
  if ((static_cast<unsigned char>(request.stop(0)[0]) & 0x80) != 0)
    request.set_stop(0, std::string("\xEF\xBF\xBD!never!"));
  const Answer held = rig_.Generate(request);
  ASSERT_TRUE(held.status.ok()) << held.status.error_message();
  EXPECT_EQ(held.text, whole.text);
  EXPECT_EQ(held.done.finish_reason(), v1::FINISH_REASON_MAX_TOKENS);
}

TEST_F(GenerateServiceTest, StopTokensEndTheAnswerUnseen) {
  const auto prompt = ConsumerRig::Prompt(kPromptTokens);
  v1::GenerateRequest request = ConsumerRig::Request(prompt, "scd", v1::POLICY_REQUIRE, 20);
  const Answer whole = rig_.Generate(request);
  ASSERT_TRUE(whole.status.ok());
  const std::int32_t stop = whole.ids[5];
  const auto first = std::find(whole.ids.begin(), whole.ids.end(), stop);
  request.add_stop_token_ids(stop);
  const Answer stopped = rig_.Generate(request);
  ASSERT_TRUE(stopped.status.ok());
  EXPECT_EQ(stopped.done.finish_reason(), v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_EQ(stopped.ids, std::vector<std::int32_t>(whole.ids.begin(), first));
}

TEST_F(GenerateServiceTest, AlternativesComeWithEachToken) {
  v1::GenerateRequest request =
      ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "scd", v1::POLICY_REQUIRE, 4);
  request.set_top_logprobs(3);
  const Answer answer = rig_.Generate(request);
  ASSERT_TRUE(answer.status.ok());
  ASSERT_EQ(answer.tokens.size(), 4u);
  for (const v1::TokenEvent& token : answer.tokens) {
    ASSERT_EQ(token.top_size(), 3);
    EXPECT_EQ(token.top(0).id(), token.id()) << "greedy takes the best";
    EXPECT_EQ(token.top(0).logprob(), token.logprob());
    EXPECT_GE(token.top(0).logprob(), token.top(1).logprob());
    EXPECT_LT(token.logprob(), 0);
  }
}

TEST_F(GenerateServiceTest, DefaultLengthStopsAtTheLastPosition) {
  v1::GenerateRequest request = ConsumerRig::Request(ConsumerRig::Prompt(500), "local", v1::POLICY_OFF, 0);
  const Answer answer = rig_.Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.done.num_tokens(), 12u);
}

TEST_F(GenerateServiceTest, ManyAtOnceAnswerAsOneByOne) {
  constexpr int kRequests = 12;
  std::vector<Answer> serial(kRequests);
  std::vector<Answer> parallel(kRequests);
  const auto request = [](int i) {
    return ConsumerRig::Request(
        ConsumerRig::Prompt(30 + 7 * static_cast<std::size_t>(i), static_cast<unsigned>(i)),
        i % 3 == 0 ? "local" : "scd", v1::POLICY_REQUIRE, 10);
  };
  for (int i = 0; i < kRequests; ++i) serial[static_cast<std::size_t>(i)] = rig_.Generate(request(i));
  std::vector<std::thread> threads;
  for (int i = 0; i < kRequests; ++i) {
    threads.emplace_back([&, i] { parallel[static_cast<std::size_t>(i)] = rig_.Generate(request(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(serial[i].status.ok()) << serial[i].status.error_message();
    ASSERT_TRUE(parallel[i].status.ok()) << parallel[i].status.error_message();
    EXPECT_EQ(parallel[i].ids, serial[i].ids) << i;
  }
  EXPECT_TRUE(rig_.BecomesIdle(1));
}

TEST_F(GenerateServiceTest, MetricsCountWhatWasServed) {
  const auto prompt = ConsumerRig::Prompt(kPromptTokens);
  ASSERT_TRUE(rig_.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_REQUIRE)).status.ok());
  ASSERT_TRUE(rig_.Generate(ConsumerRig::Request(prompt, "local", v1::POLICY_REQUIRE)).status.ok());
  ASSERT_TRUE(rig_.BecomesIdle(1));
  InProcessDaemon& consumer = rig_.consumer();
  EXPECT_EQ(consumer.Metric("scd_prompt_tokens_total{source=\"transferred\"}"), kTransferred);
  EXPECT_EQ(consumer.Metric("scd_prompt_tokens_total{source=\"computed\"}"),
            2 * kPromptTokens - kTransferred);
  EXPECT_EQ(consumer.Metric("scd_transfer_bytes_total{kind=\"k\"}"), kTransferred * 3 * 16 * 4);
  EXPECT_EQ(consumer.Metric("scd_transfer_bytes_total{kind=\"h\"}"), kTransferred * 64 * 4);
  EXPECT_EQ(consumer.Metric("scd_transfer_seconds_count"), 1);
  EXPECT_EQ(consumer.Metric("scd_time_to_first_token_seconds_count"), 2);
  EXPECT_EQ(consumer.Metric("scd_time_per_output_token_seconds_count"), 2);
  EXPECT_EQ(consumer.Metric("scd_requests_total{code=\"ok\",method=\"Generate\"}"), 2);
  EXPECT_EQ(consumer.Metric("scd_requests_total{code=\"ok\",method=\"Score\"}"), 0);
  EXPECT_EQ(consumer.Metric("scd_fallbacks_total{reason=\"producer_unavailable\"}"), 0)
      << "there from the start";
  EXPECT_EQ(consumer.Metric("scd_raw_kv_bytes_total"), kTransferred * 4 * 2 * 16 * 2);
  const double native = consumer.Metric("scd_ttft_stage_seconds_total{stage=\"native\"}");
  EXPECT_GT(native, 0);
  EXPECT_GT(consumer.Metric("scd_ttft_stage_seconds_total{stage=\"producer_prefill\"}"), 0);
  EXPECT_LE(native, consumer.Metric("scd_time_to_first_token_seconds_sum"));
  EXPECT_FALSE(rig_.Generate(ConsumerRig::Request(prompt, "teleport", v1::POLICY_REQUIRE)).status.ok());
  EXPECT_EQ(consumer.Metric("scd_requests_total{code=\"invalid_argument\",method=\"Generate\"}"), 1);
  EXPECT_EQ(consumer.Metric("scd_kv_pages_total"), 64);
  EXPECT_EQ(consumer.Metric("scd_kv_pages_used"), 0);
  EXPECT_NE(consumer.Metrics().find("scd_model_info"), std::string::npos);
  EXPECT_NE(consumer.Metrics().find("scd_bundle_info"), std::string::npos);
}

TEST_F(GenerateServiceTest, InfoDescribesTheServer) {
  const v1::ConsumerInfo info = rig_.Info();
  EXPECT_EQ(info.model().architecture(), "llama");
  EXPECT_EQ(info.model().num_layers(), 4u);
  EXPECT_EQ(info.model().digest(), info.bundle().consumer_model_digest());
  EXPECT_EQ(info.default_mode(), "fused");
  EXPECT_EQ(info.default_policy(), v1::POLICY_PREFER);
  EXPECT_EQ(info.producer_address(), rig_.hostile().address());
  EXPECT_EQ(info.kv_pages_total(), 64u);
  EXPECT_FALSE(info.plan().empty());
}

TEST(GenerateWithUntranslatableIdsTest, GoesByPolicy) {
  ConsumerRig rig({.untranslatable_ids = {1000}});
  auto prompt = ConsumerRig::Prompt(kPromptTokens);
  prompt[20] = 1000;
  const Answer local = rig.Generate(ConsumerRig::Request(prompt, "local", v1::POLICY_OFF));
  const Answer prefer = rig.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_PREFER));
  ASSERT_TRUE(prefer.status.ok()) << prefer.status.error_message();
  EXPECT_EQ(prefer.ids, local.ids);
  EXPECT_EQ(prefer.report().reason(), "untranslatable_token");
  const Answer require = rig.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_REQUIRE));
  EXPECT_EQ(require.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(require.status.error_message().find("token 1000 at position 20"), std::string::npos);
  EXPECT_EQ(rig.hostile().num_prefill_calls(), 0);
}

TEST(GenerateWithStoredCodesTest, KnownPrefixesCostNoPrefillAndTheRestIsComputed) {
  ConsumerRig rig({.consumer_yaml = "max_uncoded_tokens: 40\n", .code_store_mib = 16});
  const auto document = ConsumerRig::Prompt(100, 5);
  const auto with_question = [&document](unsigned seed) {
    auto prompt = document;
    const auto question = ConsumerRig::Prompt(30, seed);
    prompt.insert(prompt.end(), question.begin(), question.end());
    return prompt;
  };
  const Answer cold = rig.Generate(ConsumerRig::Request(with_question(7), "scd", v1::POLICY_REQUIRE));
  ASSERT_TRUE(cold.status.ok()) << cold.status.error_message();
  EXPECT_EQ(cold.report().stored_tokens(), 0u);
  const Answer again = rig.Generate(ConsumerRig::Request(with_question(8), "scd", v1::POLICY_REQUIRE));
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_GE(again.report().stored_tokens(), 80u);
  EXPECT_EQ(again.report().transferred_tokens() + again.report().computed_tokens(), 130u);
  const Answer local = rig.Generate(ConsumerRig::Request(with_question(8), "local", v1::POLICY_OFF));
  EXPECT_EQ(again.ids, local.ids);
  // Asked for a fresh prefill the producer stores nothing and takes nothing.
  v1::GenerateRequest fresh = ConsumerRig::Request(with_question(8), "scd", v1::POLICY_REQUIRE);
  fresh.mutable_transfer()->set_no_code_store(true);
  const Answer computed = rig.Generate(fresh);
  ASSERT_TRUE(computed.status.ok()) << computed.status.error_message();
  EXPECT_EQ(computed.report().stored_tokens(), 0u);
  EXPECT_EQ(computed.report().transferred_tokens(), 130u - 4);
  EXPECT_EQ(computed.ids, local.ids);
}

TEST(LocalOnlyConsumerTest, ScdNeedsABundle) {
  ConsumerRig rig({.with_bundle = false});
  EXPECT_EQ(rig.Info().default_mode(), "local");
  const auto prompt = ConsumerRig::Prompt(20);
  const Answer answer = rig.Generate(ConsumerRig::Request(prompt, "", v1::POLICY_UNSPECIFIED));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.report().mode(), "local");
  EXPECT_EQ(answer.report().reason(), "");
  const Answer scd = rig.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_PREFER));
  EXPECT_EQ(scd.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(scd.status.error_message().find("transfer.mode"), std::string::npos)
      << scd.status.error_message();
}

}  // namespace
}  // namespace scd::testing
