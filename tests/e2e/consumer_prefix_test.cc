// Both daemons as they are shipped: what the consumer takes over of prompts with a common beginning.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/tiny_pair_fixture.h"

namespace scd::testing {
namespace {

constexpr std::uint32_t kDocument = 150;  // four whole blocks of 32 tokens

std::vector<std::int32_t> WithQuestion(std::int32_t question) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(kDocument); ++i) ids.push_back((i * 37 + 11) % 250);
  for (std::int32_t i = 0; i < 40; ++i) ids.push_back((i * 53 + question * 17) % 250);
  return ids;
}

class ConsumerPrefixTest : public TinyPairFixture {
 protected:
  ConsumerPrefixTest() : TinyPairFixture({"max_uncoded_tokens=0"}) {}

  // Each call has a client of its own.
  Answer Ask(std::int32_t question, const std::string& mode, bool shares = true) {
    v1::GenerateRequest request =
        ConsumerClient::Request(WithQuestion(question), mode, v1::POLICY_REQUIRE, 16);
    request.mutable_transfer()->set_no_prefix_cache(!shares);
    const Answer answer = pair_->client().Generate(request);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    return answer;
  }
};

TEST_F(ConsumerPrefixTest, TheSecondRequestTakesTheBeginningOver) {
  for (const std::string mode : {"scd", "local"}) {
    SCOPED_TRACE(mode);
    const Answer first = Ask(1, mode);
    EXPECT_EQ(first.report().cached_tokens(), 0u);
    const Answer same = Ask(1, mode);
    EXPECT_GE(same.report().cached_tokens(), 160u);
    EXPECT_EQ(same.text, first.text);
    EXPECT_EQ(same.ids, first.ids);
    const Answer other = Ask(2, mode);
    EXPECT_EQ(other.report().cached_tokens(), 128u);
    EXPECT_EQ(other.ids, Ask(2, mode, /*shares=*/false).ids);
    for (const Answer* answer : {&first, &same, &other}) {
      const v1::TransferReport& report = answer->report();
      EXPECT_EQ(report.mode(), mode);
      EXPECT_EQ(report.cached_tokens() + report.transferred_tokens() + report.computed_tokens(), 190u);
    }
  }
  EXPECT_GT(pair_->consumer().Metric("scd_prompt_tokens_total{source=\"cached\"}"), 0);
  EXPECT_GT(pair_->consumer().Metric("scd_kv_pages_cached"), 0);
  EXPECT_TRUE(pair_->BecomesIdle(1));
}

TEST_F(ConsumerPrefixTest, EightClientsMakeOnePrefixOnce) {
  for (const std::string mode : {"scd", "local"}) {
    SCOPED_TRACE(mode);
    std::vector<std::vector<std::int32_t>> alone;
    for (std::int32_t i = 0; i < 8; ++i) alone.push_back(Ask(10 + i, mode, /*shares=*/false).ids);
    std::vector<Answer> answers(8);
    std::vector<std::thread> clients;
    for (std::int32_t i = 0; i < 8; ++i) {
      clients.emplace_back([&, i] { answers[static_cast<std::size_t>(i)] = Ask(10 + i, mode); });
    }
    for (std::thread& client : clients) client.join();
    std::uint32_t cached = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(answers[i].ids, alone[i]);
      cached += answers[i].report().cached_tokens();
    }
    EXPECT_EQ(cached, 7 * 128u);
  }
  EXPECT_TRUE(pair_->BecomesIdle(1));
}

}  // namespace
}  // namespace scd::testing
