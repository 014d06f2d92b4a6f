#include "eval/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "eval/ablation_grid.h"
#include "eval/computed_latency.h"
#include "eval/machine_info.h"
#include "eval/merge_results.h"
#include "eval/text_table.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Results SomeResults() {
  Results results;
  results.created = "2026-11-30T10:00:00Z";
  results.commands = {"scd-eval table"};
  results.machine = {.cpu = "a cpu", .cores = 2, .memory_gib = 23.44, .os = "an os"};
  results.pair.producer = {"base", "aa"};
  results.pair.consumer = {"expert", "bb"};
  results.pair.bundle_path = "run/bundle";
  results.pair.bundle_digest = "cc";
  results.pair.num_layers = 30;
  results.pair.d_kv = 192;
  ModeFigures local;
  local.row = {.name = "local", .group = "published", .spec = {}};
  local.kl = 0.0;
  local.f1 = 0.5;
  local.ttft_ms_native = 700;
  ModeFigures scd;
  scd.row = {.name = "scd", .group = "equal", .spec = {.mode = "scd", .native_head = 1, .native_tail = 16}};
  scd.codec = "bf16";
  scd.plan = "a plan";
  scd.bytes_per_token = 11520;
  scd.kl = 0.02;
  scd.ppl = NAN;
  results.modes = {local, scd};
  return results;
}

TEST(ResultsJsonTest, HasTheSchemasFields) {
  const Json document = ResultsJson(SomeResults());
  EXPECT_EQ(document["schema"], "scd.eval.v1");
  EXPECT_EQ(document["raw_bytes_per_token"], 23040);
  EXPECT_EQ(document["machine"]["memory_gib"], 23.4);
  EXPECT_EQ(document["pair"]["bundle"]["digest"], "cc");
  ASSERT_EQ(document["modes"].size(), 2u);
  const Json& scd = document["modes"][1];
  EXPECT_EQ(scd["mode"], "scd");
  EXPECT_EQ(scd["row"], "scd");
  EXPECT_EQ(scd["native_tail"], 16);
  EXPECT_EQ(scd["percent_of_raw"], 50.0);
  EXPECT_TRUE(scd["ppl"].is_null());  // not a number
  EXPECT_TRUE(scd["f1"].is_null());
  const Json& local = document["modes"][0];
  EXPECT_TRUE(local["codec"].is_null());
  EXPECT_EQ(local["bytes_per_token"], 0.0);
  EXPECT_TRUE(local["ttft_ms_cold"].is_null());
  for (const char* absent : {"latency", "ablations", "drift", "interrupted", "error"}) {
    EXPECT_FALSE(document.contains(absent)) << absent;
  }
  // What is written can be read.
  EXPECT_EQ(Json::parse(ResultsText(document)), document);
}

TEST(ComputedLatencyTest, AddsTheWiresTime) {
  LatencyFigures loopback;
  loopback.bytes = 1.25e6;  // 10 Mbit
  loopback.ttft_ms_cold = 300;
  loopback.ttft_ms_native = 500;
  const LatencyFigures computed = ComputedLatency(loopback, 100);
  EXPECT_FALSE(computed.measured);
  EXPECT_EQ(computed.link_mbit_s, 100);
  EXPECT_DOUBLE_EQ(*computed.wire_ms, 100);
  EXPECT_DOUBLE_EQ(*computed.ttft_ms_cold, 400);
  EXPECT_EQ(computed.ttft_ms_codes_ready, std::nullopt);
  EXPECT_DOUBLE_EQ(*computed.ttft_ms_native, 500);  // nothing crosses the wire
}

TEST(TextTableTest, AlignsAndLeavesOutEmptyColumns) {
  EXPECT_EQ(AlignedTable({{"row", "x"}, {"a", "10.5"}, {"größer", "-"}}),
            "row        x\na       10.5\ngrößer     -\n");
  const std::string text = DescribeResults(SomeResults());
  EXPECT_THAT(text, HasSubstr("raw KV is 23040 bytes a token"));
  EXPECT_THAT(text, HasSubstr("KL nats"));
  EXPECT_THAT(text, HasSubstr("50.0"));
  EXPECT_THAT(text, Not(HasSubstr("exact")));
  EXPECT_EQ(DescribeResults({}), "");
}

TEST(MachineInfoTest, KnowsThisMachine) {
  const MachineInfo machine = ThisMachine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_gib, 0.1);
  EXPECT_THAT(UtcNow(), ::testing::MatchesRegex("20..-..-..T..:..:..Z"));
}

TEST(MergeResultsTest, PutsSectionsTogetherAndTheLastRowCounts) {
  Results first = SomeResults();
  Results second = SomeResults();
  second.commands = {"scd-eval latency"};
  second.modes.erase(second.modes.begin());
  second.modes[0].kl = 0.01;
  LatencyFigures latency;
  latency.mode = latency.row = "scd";
  latency.prefix_tokens = 128;
  second.latency_prefix_tokens = {128};
  second.latency = {latency};
  second.ablations = {{.name = "ranks", .rows = {AblationFigures{}}}};
  second.drift = nlohmann::json{{"prefixes", 2}};
  const auto merged = MergeResults({ResultsJson(first), ResultsJson(second)}, {"a", "b"});
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT((*merged)["commands"].get<std::vector<std::string>>(),
              ElementsAre("scd-eval table", "scd-eval latency"));
  ASSERT_EQ((*merged)["modes"].size(), 2u);
  EXPECT_EQ((*merged)["modes"][0]["row"], "local");
  EXPECT_EQ((*merged)["modes"][1]["kl"], 0.01);
  EXPECT_EQ((*merged)["latency"]["rows"].size(), 1u);
  EXPECT_EQ((*merged)["ablations"][0]["name"], "ranks");
  EXPECT_EQ((*merged)["drift"]["prefixes"], 2);
}

TEST(MergeResultsTest, RefusesOtherPairsAndOtherDocuments) {
  Results other = SomeResults();
  other.pair.bundle_digest = "dd";
  const auto error = [](const Json& document) {
    return std::string(
        MergeResults({ResultsJson(SomeResults()), document}, {"a.json", "b.json"}).status().message());
  };
  EXPECT_THAT(error(ResultsJson(other)),
              HasSubstr("b.json: pair/bundle/digest is \"dd\", but \"cc\" in a.json"));
  EXPECT_THAT(error(Json{{"schema", "other"}}), HasSubstr("b.json: is no results document"));
  EXPECT_THAT(error(Json::array({1})), HasSubstr("b.json: is no results document"));
  Json broken = ResultsJson(SomeResults());
  broken["modes"] = Json::array({1});
  EXPECT_THAT(error(broken), HasSubstr("modes: expected a list of objects"));
  broken = ResultsJson(SomeResults());
  broken["latency"] = 3;
  EXPECT_THAT(error(broken), HasSubstr("latency.rows: expected a list of objects"));
  broken = ResultsJson(SomeResults());
  broken["schema"] = 3;
  EXPECT_THAT(error(broken), HasSubstr("is no results document"));
  broken = ResultsJson(SomeResults());
  broken["pair"] = "text";
  EXPECT_THAT(error(broken), HasSubstr("pair/producer/digest is null"));
}

TEST(MergeResultsTest, ReadsFilesWithErrorsThatNameThem) {
  const testing::TempDir folder;
  EXPECT_TRUE(absl::IsNotFound(ReadResults(folder.File("none.json")).status()));
  testing::WriteFile(folder.File("bad.json"), "{");
  EXPECT_THAT(std::string(ReadResults(folder.File("bad.json")).status().message()), HasSubstr("bad.json"));
}

BundleManifest SomeManifest() {
  BundleManifest manifest;
  manifest.ranks_h = {8, 16};
  manifest.candidate_layers = {5, 3, 4};
  manifest.default_patch_layers = {3, 5};
  manifest.patch_choice = {{.layer = 3}, {.layer = 5}, {.layer = 4}};
  return manifest;
}

TEST(AblationRowsTest, GoThroughTheGrids) {
  AblateConfig config;
  config.rank_k = {1, 2};
  config.rank_v = {3, 4, 5};
  const std::vector<ModeRow> ranks = AblationRows(Ablation::kRanks, config, SomeManifest());
  ASSERT_EQ(ranks.size(), 6u);
  EXPECT_EQ(ranks[4].spec.mode, "reuse");
  EXPECT_EQ(ranks[4].spec.rank_k, 2);
  EXPECT_EQ(ranks[4].spec.rank_v, 4);
  EXPECT_EQ(ranks[4].spec.native_tail, 16);

  const std::vector<ModeRow> rank_h = AblationRows(Ablation::kRankH, config, SomeManifest());
  ASSERT_EQ(rank_h.size(), 2u);
  EXPECT_EQ(rank_h[1].spec.rank_h, 16);
  config.rank_h = {8};
  EXPECT_EQ(AblationRows(Ablation::kRankH, config, SomeManifest()).size(), 1u);

  config.max_patch_layers = 2;
  const std::vector<ModeRow> patch = AblationRows(Ablation::kPatchLayers, config, SomeManifest());
  ASSERT_EQ(patch.size(), 3u);
  EXPECT_THAT(*patch[0].spec.patch_layers, ElementsAre());
  EXPECT_THAT(*patch[2].spec.patch_layers, ElementsAre(3, 5));
  config.max_patch_layers = 8;
  EXPECT_EQ(AblationRows(Ablation::kPatchLayers, config, SomeManifest()).size(), 4u);  // all that there are

  BundleManifest rated = SomeManifest();
  EXPECT_TRUE(AblationRows(Ablation::kDistortion, config, rated).empty());  // a bundle without tables
  rated.rate_points = {{.distortion = 0.001}, {.distortion = 0.02}};
  const std::vector<ModeRow> rates = AblationRows(Ablation::kDistortion, config, rated);
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[1].name, "distortion 0.02");
  EXPECT_EQ(rates[1].spec.mode, "scd");
  EXPECT_EQ(rates[1].spec.codec, Codec::kEntropy);
  EXPECT_EQ(rates[1].spec.distortion, 0.02);
  rated.fused.rank = 8;
  config.distortions = {0.02};
  ASSERT_EQ(AblationRows(Ablation::kDistortion, config, rated).size(), 1u);
  EXPECT_EQ(AblationRows(Ablation::kDistortion, config, rated)[0].spec.mode, "fused");

  BundleManifest given = SomeManifest();
  given.patch_choice.clear();
  EXPECT_THAT(PatchOrder(given), ElementsAre(5, 3, 4));
  given.patch_choice.push_back({.layer = 4});
  EXPECT_THAT(PatchOrder(given), ElementsAre(4, 5, 3)) << "what was not chosen comes after what was";
}

}  // namespace
}  // namespace scd
