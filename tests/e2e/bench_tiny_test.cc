// scd-client bench against both daemons, with a tiny pair.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/tiny_pair_fixture.h"

namespace scd::testing {
namespace {

using nlohmann::json;

class BenchTinyTest : public TinyPairFixture {
 protected:
  // What the client was given beside the address, and the document that it wrote.
  json Bench(std::vector<std::string> arguments, int expected_exit = 0) {
    const std::string path = dir_.File("load.json");
    arguments.insert(arguments.begin(), {"bench", "--address", pair_->consumer().address(), "--json", path});
    const ProgramRun run = RunProgram("scd-client", arguments, absl::Seconds(120));
    EXPECT_EQ(run.exit_code, expected_exit) << run.output;
    return json::parse(ReadFile(path), nullptr, /*allow_exceptions=*/false);
  }
};

TEST_F(BenchTinyTest, ClosedLoopSweep) {
  const json document = Bench({"--concurrency", "1,4", "--requests", "8", "--prompt-tokens", "60,100", "-n",
                               "6", "--mode", "scd", "--policy", "require"});
  ASSERT_EQ(document["levels"].size(), 2u);
  for (const json& level : document["levels"]) {
    EXPECT_EQ(level["requests_ok"], 8);
    EXPECT_EQ(level["output_tokens"], 48);
    EXPECT_EQ(level["modes"]["scd"], 8);
    const json& tokens = level["prompt_tokens"];
    EXPECT_EQ(tokens["all"], 640);
    EXPECT_EQ(tokens["all"],
              tokens["transferred"].get<int>() + tokens["computed"].get<int>() + tokens["cached"].get<int>());
    EXPECT_GT(tokens["transferred"], 400);
    EXPECT_GT(level["bytes"]["received"], 0);
    EXPECT_GT(level["ttft_ms"]["p50"], 0.0);
    EXPECT_GE(level["end_to_end_ms"]["p99"], level["ttft_ms"]["p50"]);
    EXPECT_GT(level["reported_ms"]["producer_prefill"]["p50"], 0.0);
  }
  EXPECT_TRUE(pair_->BecomesIdle(1));
}

TEST_F(BenchTinyTest, ASharedPrefixIsPrefilledOnce) {
  const json level = Bench({"--concurrency", "4", "--requests", "4", "--shared-prefix-tokens", "192",
                            "--questions", "4", "--question-tokens", "20", "-n", "4", "--mode", "scd",
                            "--policy", "require", "--warmup", "0"})["levels"][0];
  EXPECT_EQ(level["requests_ok"], 4);
  const json& tokens = level["prompt_tokens"];
  EXPECT_EQ(tokens["all"], 4 * 212);
  EXPECT_GT(tokens["cached"], 0);
  EXPECT_GE(tokens["producer_prefilled"], 192);
  EXPECT_LT(tokens["producer_prefilled"], 2 * 192);
}

TEST_F(BenchTinyTest, OpenLoopCountsWhatTheProducerDoesNotServe) {
  pair_->KillProducer();
  const json document = Bench({"--rate", "40", "--requests", "10", "--prompt-tokens", "60", "-n", "2",
                               "--mode", "scd", "--policy", "require", "--warmup", "0"},
                              /*expected_exit=*/1);
  const json& level = document["levels"][0];
  EXPECT_EQ(level["requests_ok"], 0);
  EXPECT_EQ(level["errors"]["unavailable"]["count"], 10);

  const json native = Bench({"--rate", "40", "--requests", "10", "--prompt-tokens", "60", "-n", "2", "--mode",
                             "scd", "--policy", "prefer"})["levels"][0];
  EXPECT_EQ(native["requests_ok"], 10);
  EXPECT_EQ(native["reasons"]["producer_unavailable"], 10);
}

}  // namespace
}  // namespace scd::testing
