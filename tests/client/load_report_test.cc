#include "client/load_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scd {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

LevelResult Level(std::uint32_t concurrency, double rate) {
  LevelResult level;
  level.concurrency = concurrency;
  level.rate_per_s = rate;
  for (int i = 0; i < 3; ++i) {
    RequestRecord record;
    record.intended_s = i;
    record.sent_s = i;
    record.token_times_s = {i + 0.1, i + 0.2};
    record.end_s = i + 1.0;
    record.report.set_mode("scd");
    record.report.set_prompt_tokens(100);
    record.report.set_transferred_tokens(90);
    record.report.set_computed_tokens(10);
    record.report.set_producer_prefilled_tokens(70);
    record.report.set_received_bytes(2 << 20);
    level.Add(record);
  }
  RequestRecord failed;
  failed.end_s = 1.0;
  failed.status = absl::UnavailableError("the producer is gone");
  level.Add(failed);
  return level;
}

TEST(DescribeLevel, NeverHidesErrors) {
  const std::string text = DescribeLevel(Level(4, 0));
  for (const char* part :
       {"concurrency 4: 3 requests in 3.0 s, 1 failed", "unavailable 1: the producer is gone",
        "1.00 requests/s, 2.0 output tokens/s", "TTFT", "100.0", "300 tokens: 270 transferred",
        "the producer prefilled 210", "30 computed", "6.00 MiB", "scd 3"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("start delay")));
}

TEST(DescribeLevel, AnOpenLoopSaysHowLateItWasItself) {
  const std::string text = DescribeLevel(Level(0, 2.5));
  EXPECT_THAT(text, HasSubstr("2.5 requests/s: 3 requests"));
  EXPECT_THAT(text, HasSubstr("start delay"));
}

TEST(DescribeLevel, WhatWasNotMeasuredIsADash) {
  LevelResult level;
  level.concurrency = 1;
  EXPECT_THAT(DescribeLevel(level), HasSubstr("-\n"));
}

TEST(DescribeSweep, HasALineForEachLevel) {
  EXPECT_EQ(DescribeSweep({Level(1, 0)}), "");
  const std::string text = DescribeSweep({Level(1, 0), Level(2, 0)});
  EXPECT_THAT(text, HasSubstr("concurrency 1 "));
  EXPECT_THAT(text, HasSubstr("concurrency 2 "));
}

TEST(LevelJson, HasEveryFigure) {
  const json document = LevelJson(Level(4, 0));
  EXPECT_EQ(document["loop"], "closed");
  EXPECT_EQ(document["concurrency"], 4);
  EXPECT_FALSE(document.contains("rate_per_s"));
  EXPECT_EQ(document["requests_ok"], 3);
  EXPECT_EQ(document["requests_failed"], 1);
  EXPECT_EQ(document["errors"]["unavailable"]["count"], 1);
  EXPECT_EQ(document["errors"]["unavailable"]["first_message"], "the producer is gone");
  for (const char* name : {"ttft_ms", "tpot_ms", "inter_token_ms", "end_to_end_ms", "start_delay_ms"}) {
    EXPECT_EQ(document[name]["count"], 3) << name;
    for (const char* figure : {"mean", "p50", "p90", "p99", "min", "max"}) {
      EXPECT_TRUE(document[name][figure].is_number()) << name << " " << figure;
    }
  }
  EXPECT_NEAR(document["ttft_ms"]["p50"].get<double>(), 100.0, 1e-6);
  EXPECT_EQ(document["prompt_tokens"]["transferred"], 270);
  EXPECT_EQ(document["prompt_tokens"]["producer_prefilled"], 210);
  EXPECT_EQ(document["bytes"]["received"], 6 << 20);
  EXPECT_EQ(document["modes"]["scd"], 3);
  EXPECT_EQ(LevelJson(Level(0, 2.5))["rate_per_s"], 2.5);
}

TEST(LoadJson, SaysWhatWasAskedFor) {
  LoadOptions options;
  options.requests = 5;
  EXPECT_EQ(LoadJson(options)["workload"], (json{{"prompt_tokens", {512}}}));
  EXPECT_EQ(LoadJson(options)["requests"], 5);
  EXPECT_FALSE(LoadJson(options).contains("duration_s"));
  options.duration = absl::Seconds(2);
  options.workload.shared_prefix_tokens = 100;
  EXPECT_EQ(LoadJson(options)["duration_s"], 2.0);
  EXPECT_EQ(LoadJson(options)["workload"]["shared_prefix_tokens"], 100);
  options.workload.prompts_file = "a.jsonl";
  EXPECT_EQ(LoadJson(options)["workload"], (json{{"prompts_file", "a.jsonl"}}));
}

}  // namespace
}  // namespace scd
