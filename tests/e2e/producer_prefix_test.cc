// Eight clients with different questions about one document, on both daemons as they are shipped.
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/tiny_pair_fixture.h"

namespace scd::testing {
namespace {

constexpr int kClients = 8;
constexpr int kDocument = 320;  // whole blocks of 32
constexpr int kQuestion = 40;

std::vector<std::int32_t> Prompt(int client) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < kDocument; ++i) ids.push_back(i * 37 % 250);
  for (int i = 0; i < kQuestion; ++i) ids.push_back((i * 41 + client * 13 + 5) % 250);
  return ids;
}

class ProducerPrefixTest : public TinyPairFixture {
 protected:
  // All at one time, for all that they need; the answers are checked against the model's own.
  std::vector<Answer> AskAll() {
    std::vector<Answer> answers(kClients);
    std::vector<std::jthread> threads;
    for (int i = 0; i < kClients; ++i) {
      threads.emplace_back([&, i] {
        v1::GenerateRequest request = ConsumerClient::Request(Prompt(i), "scd", v1::POLICY_REQUIRE);
        request.mutable_transfer()->set_no_prefix_cache(true);
        answers[static_cast<std::size_t>(i)] = pair_->client().Generate(request);
      });
    }
    threads.clear();
    for (int i = 0; i < kClients; ++i) {
      v1::GenerateRequest request = ConsumerClient::Request(Prompt(i), "local", v1::POLICY_REQUIRE);
      request.mutable_transfer()->set_no_prefix_cache(true);
      const Answer local = pair_->client().Generate(request);
      const Answer& answer = answers[static_cast<std::size_t>(i)];
      EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
      EXPECT_EQ(answer.ids, local.ids);
      EXPECT_EQ(answer.report().mode(), "scd");
    }
    return answers;
  }
};

TEST_F(ProducerPrefixTest, TheProducerPrefillsItOnceWhateverTheConsumerAsksFor) {
  const std::vector<Answer> answers = AskAll();
  const double rows = pair_->producer().Metric("scd_prefill_rows_total");
  EXPECT_GE(rows, kDocument);
  EXPECT_LE(rows, kDocument + kClients * kQuestion);
  double reported = 0;
  for (const Answer& answer : answers) reported += answer.report().producer_prefilled_tokens();
  EXPECT_EQ(reported, rows);
}

}  // namespace
}  // namespace scd::testing
