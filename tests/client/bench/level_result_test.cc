#include "client/bench/level_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

RequestRecord Answered() {
  RequestRecord record;
  record.intended_s = 1.0;
  record.sent_s = 1.25;
  record.token_times_s = {2.0, 2.5, 3.5};
  record.end_s = 4.0;
  record.report.set_mode("scd");
  record.report.set_prompt_tokens(100);
  record.report.set_transferred_tokens(80);
  record.report.set_stored_tokens(64);
  record.report.set_computed_tokens(15);
  record.report.set_cached_tokens(5);
  record.report.set_received_bytes(1000);
  record.report.set_code_bytes(900);
  record.report.set_raw_kv_bytes(5000);
  record.report.set_producer_prefill_ms(7);
  return record;
}

TEST(LevelResult, LatencyCountsFromTheIntendedStart) {
  LevelResult level;
  level.Add(Answered());
  EXPECT_EQ(level.num_ok, 1);
  EXPECT_DOUBLE_EQ(level.ttft_ms.mean(), 1000);
  EXPECT_DOUBLE_EQ(level.tpot_ms.mean(), 750);
  EXPECT_EQ(level.inter_token_ms.count(), 2u);
  EXPECT_DOUBLE_EQ(level.inter_token_ms.Percentile(100), 1000);
  EXPECT_DOUBLE_EQ(level.end_to_end_ms.mean(), 3000);
  EXPECT_DOUBLE_EQ(level.start_delay_ms.mean(), 250);
  EXPECT_DOUBLE_EQ(level.producer_prefill_ms.mean(), 7);
  EXPECT_DOUBLE_EQ(level.seconds, 4.0);
  EXPECT_DOUBLE_EQ(level.output_tokens_per_s(), 0.75);
}

TEST(LevelResult, SumsWhereTokensAndBytesCameFrom) {
  LevelResult level;
  level.Add(Answered());
  RequestRecord fallback = Answered();
  fallback.report.Clear();
  fallback.report.set_mode("local");
  fallback.report.set_reason("producer_unavailable");
  fallback.report.set_prompt_tokens(100);
  fallback.report.set_computed_tokens(100);
  level.Add(fallback);
  EXPECT_EQ(level.prompt_tokens, 200u);
  EXPECT_EQ(level.transferred_tokens, 80u);
  EXPECT_EQ(level.stored_tokens, 64u);
  EXPECT_EQ(level.computed_tokens, 115u);
  EXPECT_EQ(level.cached_tokens, 5u);
  EXPECT_EQ(level.received_bytes, 1000u);
  EXPECT_EQ(level.code_bytes, 900u);
  EXPECT_EQ(level.raw_kv_bytes, 5000u);
  EXPECT_THAT(level.modes, ElementsAre(Pair("local", 1), Pair("scd", 1)));
  EXPECT_THAT(level.reasons, ElementsAre(Pair("producer_unavailable", 1)));
}

TEST(LevelResult, FailuresAreCountedByCodeAndInNothingElse) {
  LevelResult level;
  level.Add(Answered());
  RequestRecord failed = Answered();
  failed.end_s = 9.0;
  failed.status = absl::UnavailableError("first");
  level.Add(failed);
  failed.status = absl::UnavailableError("second");
  level.Add(failed);
  failed.status = absl::ResourceExhaustedError("full");
  level.Add(failed);
  EXPECT_EQ(level.num_ok, 1);
  EXPECT_EQ(level.num_failed(), 3);
  EXPECT_EQ(level.errors.at("unavailable").count, 2);
  EXPECT_EQ(level.errors.at("unavailable").first_message, "first");
  EXPECT_EQ(level.errors.at("resource_exhausted").count, 1);
  EXPECT_EQ(level.ttft_ms.count(), 1u);
  EXPECT_EQ(level.output_tokens, 3u);
  EXPECT_DOUBLE_EQ(level.seconds, 9.0) << "time that failures took is time of the level";
}

TEST(LevelResult, AnswersOfOneTokenHaveNoTimePerToken) {
  LevelResult level;
  RequestRecord record = Answered();
  record.token_times_s = {2.0};
  level.Add(record);
  record.token_times_s.clear();
  level.Add(record);
  EXPECT_EQ(level.ttft_ms.count(), 1u);
  EXPECT_EQ(level.tpot_ms.count(), 0u);
  EXPECT_EQ(level.end_to_end_ms.count(), 2u);
}

}  // namespace
}  // namespace scd
