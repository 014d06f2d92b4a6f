// scd-eval as a process on the tiny pair, whose bundle is the identity: it starts both daemons, measures,
// writes, and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "eval/child_process.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/daemon_pair.h"
#include "tests/e2e/e2e_paths.h"
#include "tests/support/daemon.h"
#include "tests/support/temp_dir.h"

namespace scd::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kTimeout = absl::Seconds(120);

// Command lines of all processes that name the folder.
std::vector<std::string> ProcessesNaming(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    std::ifstream in(entry.path() / "cmdline", std::ios::binary);
    std::string line((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (line.find(folder) != std::string::npos && line.find("eval_tiny_test") == std::string::npos) {
      found.push_back(line);
    }
  }
  return found;
}

bool NoneLeft(const std::string& folder) {
  for (int i = 0; i < 200; ++i) {
    if (ProcessesNaming(folder).empty()) return true;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return false;
}

class EvalTinyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto files = MakeTinyPair(folder_.path());
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
    WriteWindows(2);
    std::string questions;
    for (const char* subject : {"The lamp stands on the table.", "A bird sits in the old tree."}) {
      std::string context;
      for (int i = 0; i < 6; ++i) context += std::string(subject) + " ";
      questions += json{{"context", context}, {"question", "Where?"}, {"answers", {"there"}}}.dump() + "\n";
    }
    WriteFile(folder_.File("questions.jsonl"), questions);
    WriteFile(folder_.File("eval.yaml"),
              absl::StrCat("daemons:\n  producer_config: ", ShippedConfig("producer"),
                           "\n  consumer_config: ", ShippedConfig("consumer"), R"(
eval: {max_tokens: 4, ready_questions: 1, stop: []}
rows:
  - {mode: local}
  - {mode: raw, name: raw, codec: f32}
  - {mode: raw_rerope, name: raw re-roped, codec: f32}
  - {mode: quantized_rerope, name: 8 bits, codec: int8, native_head: 1}
  - {mode: selective, name: selective, codec: f32, native_head: 1, recompute_layers: [1, 2]}
  - {mode: reuse, name: reuse, group: equal, codec: f32, native_head: 1, native_tail: 2}
  - {mode: scd, name: scd, group: equal, codec: f32, native_head: 1, native_tail: 2}
  - {mode: fused, name: fused, group: equal, native_head: 1, native_tail: 2}
latency: {prefix_tokens: [80, 160], repeats: 1}
ablate: {rank_k: [4, 16], rank_v: [16], windows: 1, questions: 1, ready_questions: 1}
drift: {prefixes: 2, decode_positions: 4}
)"));
  }

  void WriteWindows(int count) {
    std::string windows;
    for (int i = 0; i < count; ++i) {
      json prefix = json::array(), continuation = json::array();
      for (int id = 0; id < 120; ++id) prefix.push_back(10 + (id * 7 + i) % 200);
      for (int id = 0; id < 8; ++id) continuation.push_back(20 + id * 3);
      windows += json{{"prefix_ids", prefix}, {"continuation_ids", continuation}}.dump() + "\n";
    }
    WriteFile(folder_.File("windows.jsonl"), windows);
  }

  std::vector<std::string> Arguments(const std::string& command) const {
    std::vector<std::string> arguments = {command, "--config", folder_.File("eval.yaml"), "--json",
                                          folder_.File("out.json")};
    const auto add = [&arguments](const char* option, const std::string& value) {
      arguments.push_back(option);
      arguments.push_back(value);
    };
    add("--set", "data.windows.path=" + folder_.File("windows.jsonl"));
    add("--set", "data.windows.count=0");
    add("--set", "data.questions.path=" + folder_.File("questions.jsonl"));
    add("--bundle", files_.bundle);
    for (const std::string& setting : files_.producer_settings) add("--producer-set", setting);
    for (const std::string& setting : files_.consumer_settings) add("--consumer-set", setting);
    add("--producer-set", "model.path=" + files_.producer_model);
    add("--consumer-set", "model.path=" + files_.consumer_model);
    add("--consumer-set", "model.adapter=\"\"");
    return arguments;
  }
  json Document() const { return json::parse(ReadFile(folder_.File("out.json")), nullptr, false); }

  TempDir folder_;
  PairFiles files_;
};

TEST_F(EvalTinyTest, TheTableOfAPairThatSendsItsStateUnchanged) {
  const ProgramRun run = RunProgram("scd-eval", Arguments("table"), kTimeout);
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("KL nats"));
  const json document = Document();
  ASSERT_TRUE(document.is_object());
  EXPECT_EQ(document["schema"], "scd.eval.v1");
  EXPECT_EQ(document["raw_bytes_per_token"], 4 * 16 * 2 * 2);
  EXPECT_EQ(document["pair"]["num_layers"], 4);
  EXPECT_EQ(document["pair"]["bundle"]["path"], files_.bundle);
  EXPECT_EQ(document["pair"]["producer"]["digest"], document["pair"]["consumer"]["digest"]);
  EXPECT_EQ(document["data"]["windows"]["count"], 2);
  ASSERT_EQ(document["modes"].size(), 8u);
  for (const json& row : document["modes"]) {
    for (const char* key : {"mode", "row", "group", "plan"}) EXPECT_TRUE(row[key].is_string()) << key;
    for (const char* key : {"bytes_per_token", "percent_of_raw", "f1", "exact", "ppl", "kl", "tv",
                            "kl_answer", "ttft_ms_native"}) {
      EXPECT_TRUE(row[key].is_number()) << row["row"] << " " << key;
    }
    const std::string name = row["row"];
    if (name == "local") {
      EXPECT_EQ(row["kl"], 0.0);
      EXPECT_EQ(row["kl_answer"], 0.0);
      EXPECT_EQ(row["bytes_per_token"], 0.0);
      EXPECT_TRUE(row["ttft_ms_cold"].is_null());
      continue;
    }
    // Producer and consumer are one model and the codes are its state: only rounding is left, which this
    // model, made to be sensitive, turns into nats where it is that of 8 bits (4 bits: over 4) or of a grid.
    const bool rounded = name == "8 bits" || name == "fused";
    EXPECT_LT(row["kl"].get<double>(), rounded ? 1.5 : 1e-6) << name;
    if (name == "fused") {
      EXPECT_EQ(row["codec"], "entropy");
    }
    EXPECT_GT(row["bytes_per_token"].get<double>(), 0) << name;
    EXPECT_GT(row["ttft_ms_cold"].get<double>(), 0) << name;
    EXPECT_GT(row["ttft_ms_codes_ready"].get<double>(), 0) << name;
    if (!rounded) {
      EXPECT_TRUE(row["first_difference"].is_null()) << name;
    }
    // Full ranks in f32: twice the raw state of bf16.
    if (name == "reuse") {
      EXPECT_EQ(row["code_bytes_per_transferred_token"], 512.0);
    }
  }
  EXPECT_THAT(ProcessesNaming(folder_.path()), IsEmpty());
}

TEST_F(EvalTinyTest, RowsOfFittedCodesAreRepeatedForEachCodec) {
  std::vector<std::string> arguments = Arguments("divergence");
  arguments.insert(arguments.end(), {"--set", "eval.codecs=[bf16,entropy]", "--set",
                                     "rows=[{mode: raw}, {mode: reuse}, {mode: scd}, {mode: fused}]", "--set",
                                     "data.questions.count=1"});
  const ProgramRun run = RunProgram("scd-eval", arguments, kTimeout);
  ASSERT_EQ(run.exit_code, 0) << run.output;
  std::vector<std::string> rows;
  std::map<std::string, double> bytes;
  const json document = Document();
  for (const json& row : document["modes"]) {
    rows.push_back(absl::StrCat(row["row"].get<std::string>(), ": ", row["codec"].get<std::string>()));
    bytes[rows.back()] = row["code_bytes_per_transferred_token"];
  }
  EXPECT_THAT(rows, ElementsAre("raw: bf16", "reuse: bf16", "reuse, entropy: entropy", "scd: bf16",
                                "scd, entropy: entropy", "fused, bf16: bf16", "fused: entropy"));
  // This model's numbers are wide: on a fine grid they take more than bf16's two bytes.
  EXPECT_NE(bytes["reuse, entropy: entropy"], bytes["reuse: bf16"]);
  EXPECT_NE(bytes["scd, entropy: entropy"], bytes["scd: bf16"]);
  EXPECT_NE(bytes["fused: entropy"], bytes["fused, bf16: bf16"]);
}

TEST_F(EvalTinyTest, LatencyAblationsAndDrift) {
  const ProgramRun latency = RunProgram("scd-eval", Arguments("latency"), kTimeout);
  ASSERT_EQ(latency.exit_code, 0) << latency.output;
  EXPECT_EQ(Document()["latency"]["rows"].size(), 3u * 2u * (1u + 3u));
  const ProgramRun ablate = RunProgram("scd-eval", Arguments("ablate"), kTimeout);
  ASSERT_EQ(ablate.exit_code, 0) << ablate.output;
  const json ablations = Document()["ablations"];
  ASSERT_EQ(ablations.size(), 4u);
  EXPECT_EQ(ablations[0]["name"], "ranks");
  ASSERT_EQ(ablations[0]["rows"].size(), 2u);
  EXPECT_EQ(ablations[0]["rows"][0]["rank_k"], 4);
  EXPECT_GT(ablations[0]["rows"][0]["kl"].get<double>(), ablations[0]["rows"][1]["kl"].get<double>());
  EXPECT_EQ(ablations[2]["rows"][0]["num_patch_layers"], 0);
  EXPECT_EQ(ablations[3]["name"], "distortion");
  ASSERT_EQ(ablations[3]["rows"].size(), 2u);
  EXPECT_EQ(ablations[3]["rows"][0]["distortion"], 0.0001);
  EXPECT_EQ(ablations[3]["rows"][1]["distortion"], 0.01);
  EXPECT_GT(ablations[3]["rows"][0]["bytes_per_token"].get<double>(),
            ablations[3]["rows"][1]["bytes_per_token"].get<double>());
  EXPECT_LT(ablations[3]["rows"][0]["kl"].get<double>(), ablations[3]["rows"][1]["kl"].get<double>());
  const ProgramRun drift = RunProgram("scd-eval", Arguments("drift"), kTimeout);
  ASSERT_EQ(drift.exit_code, 0) << drift.output;
  EXPECT_TRUE(Document()["drift"]["curves"].is_array());
  EXPECT_THAT(ProcessesNaming(folder_.path()), IsEmpty());
}

TEST_F(EvalTinyTest, ADaemonThatCannotStartIsExplained) {
  std::vector<std::string> arguments = Arguments("ppl");
  arguments.insert(arguments.end(), {"--producer-set", "model.path=no/such/model"});
  const ProgramRun run = RunProgram("scd-eval", arguments, kTimeout);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr("scd-producer ended with exit code"));
  EXPECT_THAT(run.output, HasSubstr("no/such/model"));
}

// Starts a run that takes long, and waits until it measures.
absl::StatusOr<std::unique_ptr<ChildProcess>> StartLongRun(const std::vector<std::string>& arguments) {
  auto run = ChildProcess::Start(ProgramPath("scd-eval"), arguments);
  if (!run.ok()) return run.status();
  for (int i = 0; i < 1000; ++i) {
    if ((*run)->FirstOutput(1 << 16).find(" producer ") != std::string::npos) return run;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return absl::DeadlineExceededError((*run)->LastLines(20));
}

TEST_F(EvalTinyTest, AnInterruptEndsEverythingAndWritesWhatThereIs) {
  WriteWindows(2000);
  std::vector<std::string> arguments = Arguments("ppl");
  arguments.insert(arguments.end(), {"--set", "rows=[{mode: local}]"});
  const auto run = StartLongRun(arguments);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_GE(ProcessesNaming(folder_.path()).size(), 3u);
  kill((*run)->pid(), SIGINT);
  const auto exit_code = (*run)->Wait(absl::Seconds(30), {});
  ASSERT_TRUE(exit_code.ok()) << exit_code.status();
  EXPECT_EQ(*exit_code, 4) << (*run)->LastLines(20);
  EXPECT_THAT(ProcessesNaming(folder_.path()), IsEmpty());
}

TEST_F(EvalTinyTest, DaemonsEndWithAnEvaluationThatIsKilled) {
  WriteWindows(2000);
  const auto run = StartLongRun(Arguments("ppl"));
  ASSERT_TRUE(run.ok()) << run.status();
  kill((*run)->pid(), SIGKILL);
  ASSERT_TRUE((*run)->Wait(absl::Seconds(10), {}).ok());
  EXPECT_TRUE(NoneLeft(folder_.path())) << absl::StrJoin(ProcessesNaming(folder_.path()), "\n");
}

}  // namespace
}  // namespace scd::testing
