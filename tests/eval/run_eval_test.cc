// The whole program against a consumer of the test's: figures, lies, interrupts, and what is written.
#include "eval/run_eval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <sstream>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "tests/eval/fake_consumer.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::FakeConsumer;
using ::testing::HasSubstr;

struct Outcome {
  EvalExit exit;
  std::string out;
  std::string err;
};

class RunEvalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string windows, questions;
    for (int i = 0; i < 2; ++i) {
      json prefix = json::array(), continuation = json::array();
      for (int id = 0; id < 100; ++id) prefix.push_back(id);
      for (int id = 0; id < 4; ++id) continuation.push_back(id);
      windows += json{{"prefix_ids", prefix}, {"continuation_ids", continuation}}.dump() + "\n";
    }
    for (const char* answer : {"yes", "no"}) {
      questions +=
          json{{"context", std::string(60, 'c')}, {"question", "q"}, {"answers", {answer}}}.dump() + "\n";
    }
    testing::WriteFile(folder_.File("windows.jsonl"), windows);
    testing::WriteFile(folder_.File("questions.jsonl"), questions);
    testing::WriteFile(folder_.File("eval.yaml"),
                       absl::StrCat("consumer: ", consumer_.address(), R"(
data:
  windows: {path: )",
                                    folder_.File("windows.jsonl"), R"(}
  questions: {path: )",
                                    folder_.File("questions.jsonl"), R"(, format: jsonl}
eval: {ready_questions: 1}
rows:
  - {mode: local}
  - {mode: raw, name: raw}
  - {mode: scd, name: scd, group: equal, native_head: 1, native_tail: 16}
latency: {prefix_tokens: [40, 80], repeats: 2, links_mbit_s: [100]}
report: {python: /bin/sh, renderer: )",
                                    folder_.File("render.sh"), "}\n"));
    testing::WriteFile(folder_.File("render.sh"), "echo drawn > \"$2/report.html\"\n");
  }

  Outcome Eval(std::vector<std::string> arguments, std::stop_token stop = {}) {
    arguments.insert(arguments.end(), {"--config", folder_.File("eval.yaml")});
    std::ostringstream out, err;
    const EvalTerminal terminal{.out = out,
                                .err = err,
                                .stop = std::move(stop),
                                .is_terminal = false,
                                .program_folder = folder_.path()};
    const EvalExit exit = RunEval(arguments, terminal);
    return {exit, out.str(), err.str()};
  }
  json Document() const { return json::parse(testing::ReadFile(folder_.File("out.json"))); }

  testing::TempDir folder_;
  FakeConsumer consumer_;
};

TEST_F(RunEvalTest, TheTableHasEveryFigure) {
  const Outcome run = Eval({"table", "--json", folder_.File("out.json"), "--report", folder_.File("report")});
  ASSERT_EQ(run.exit, EvalExit::kOk) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("KL nats"), HasSubstr("raw KV is 96 bytes a token")));
  const json document = Document();
  EXPECT_EQ(document["schema"], "scd.eval.v1");
  EXPECT_EQ(document["raw_bytes_per_token"], 96);
  EXPECT_EQ(document["pair"]["consumer"]["description"], "the expert");
  EXPECT_EQ(document["data"]["windows"]["scored_tokens"], 8);
  ASSERT_EQ(document["modes"].size(), 3u);
  const json& local = document["modes"][0];
  EXPECT_EQ(local["kl"], 0.0);
  EXPECT_EQ(local["bytes_per_token"], 0.0);
  EXPECT_EQ(local["f1"], 0.5);  // "yes" is the answer to one of the two
  EXPECT_EQ(local["ttft_ms_native"], 40.0);
  EXPECT_TRUE(local["ttft_ms_cold"].is_null());
  EXPECT_TRUE(local["first_difference"].is_null());
  const json& raw = document["modes"][1];
  EXPECT_EQ(raw["f1"], 0.5);  // "no" is that of the other
  EXPECT_EQ(raw["first_difference"], 0.0);
  EXPECT_EQ(raw["codec"], "bf16");
  const json& scd = document["modes"][2];
  EXPECT_NEAR(scd["ppl"].get<double>(), std::exp(2.0), 1e-9);
  EXPECT_EQ(scd["kl"], 0.25);
  EXPECT_EQ(scd["tv"], 0.5);
  EXPECT_EQ(scd["kl_answer"], 0.25);
  EXPECT_EQ(scd["ttft_ms_cold"], 20.0);
  EXPECT_EQ(scd["ttft_ms_codes_ready"], 5.0);
  EXPECT_EQ(scd["ttft_ms_native"], 40.0);
  // Two windows of 100 tokens and two prompts of "Context: c...\nQuestion: q\nAnswer:": 89 bytes, so tokens.
  const double tokens = 2 * 100 + 2 * 89;
  const double transferred = tokens - 4 * 18;
  EXPECT_DOUBLE_EQ(scd["bytes_per_token"].get<double>(), (transferred * 10 + 4 * 50) / tokens);
  EXPECT_EQ(scd["code_bytes_per_transferred_token"], 10.0);
  EXPECT_EQ(testing::ReadFile(folder_.File("report/report.html")), "drawn\n");
  EXPECT_EQ(json::parse(testing::ReadFile(folder_.File("report/results.json"))), document);
  // Quality never comes from the store.
  for (const v1::Transfer& transfer : consumer_.transfers()) {
    EXPECT_EQ(transfer.policy(), transfer.mode() == "local" ? v1::POLICY_OFF : v1::POLICY_REQUIRE);
  }
}

TEST_F(RunEvalTest, OtherSubcommandsMeasureTheirPart) {
  ASSERT_EQ(Eval({"ppl", "--json", folder_.File("out.json")}).exit, EvalExit::kOk);
  EXPECT_TRUE(Document()["modes"][2]["f1"].is_null());
  EXPECT_EQ(Document()["modes"][2]["kl"], 0.25);
  ASSERT_EQ(Eval({"qa", "--json", folder_.File("out.json")}).exit, EvalExit::kOk);
  EXPECT_TRUE(Document()["modes"][2]["kl"].is_null());
  EXPECT_EQ(Document()["modes"][2]["exact"], 0.5);
  ASSERT_EQ(Eval({"divergence", "--json", folder_.File("out.json")}).exit, EvalExit::kOk);
  EXPECT_EQ(Document()["modes"][1]["first_difference"], 0.0);
  EXPECT_EQ(Document()["modes"][2]["kl_answer"], 0.25);
}

TEST_F(RunEvalTest, LatencyMeasuresAndComputes) {
  const Outcome run = Eval({"latency", "--json", folder_.File("out.json")});
  ASSERT_EQ(run.exit, EvalExit::kOk) << run.err;
  const json latency = Document()["latency"];
  EXPECT_EQ(latency["prefix_tokens"], json({40, 80}));
  ASSERT_EQ(latency["rows"].size(),
            4u);  // of the one row in group "equal": two lengths, measured and computed
  const json& measured = latency["rows"][2];
  const json& computed = latency["rows"][3];
  EXPECT_EQ(measured["prefix_tokens"], 80);
  EXPECT_EQ(measured["measured"], true);
  EXPECT_TRUE(measured["link_mbit_s"].is_null());
  EXPECT_EQ(measured["ttft_ms_cold"], 20.0);
  EXPECT_EQ(measured["ttft_ms_codes_ready"], 5.0);
  EXPECT_EQ(measured["ttft_ms_native"], 40.0);
  EXPECT_EQ(measured["stages_ms"]["transfer"], 8.0);
  EXPECT_EQ(measured["bytes"], 62 * 10 + 50);
  EXPECT_EQ(computed["measured"], false);
  EXPECT_NEAR(computed["ttft_ms_cold"].get<double>(), 20.0 + 670 * 8 / 1e5, 1e-9);

  ASSERT_EQ(Eval({"latency", "--link-mbit", "100", "--json", folder_.File("out.json")}).exit, EvalExit::kOk);
  EXPECT_EQ(Document()["latency"]["rows"].size(), 2u);
  EXPECT_EQ(Document()["latency"]["rows"][0]["link_mbit_s"], 100.0);
  EXPECT_THAT(Eval({"latency", "--set", "latency.rows=[scdd]"}).err,
              HasSubstr("no row \"scdd\" in group \"equal\""));
}

struct ConsumerLie {
  const char* name;
  FakeConsumer::ReportLie report;
  FakeConsumer::ScoreLie score;
  const char* error;
};
void PrintTo(const ConsumerLie& lie, std::ostream* out) {
  *out << lie.name;
}

class LyingConsumer : public RunEvalTest, public ::testing::WithParamInterface<ConsumerLie> {};

TEST_P(LyingConsumer, StopsTheRun) {
  consumer_.LieInReports(GetParam().report);
  consumer_.LieInScores(GetParam().score);
  const Outcome run = Eval({"table", "--json", folder_.File("out.json")});
  EXPECT_EQ(run.exit, EvalExit::kFailed);
  EXPECT_THAT(run.err, AllOf(HasSubstr(GetParam().error), HasSubstr("row \"scd\"")));
  // The rows before it are written, and the document says why it ends.
  const json document = Document();
  EXPECT_EQ(document["modes"].size(), 2u);
  EXPECT_THAT(document["error"].get<std::string>(), HasSubstr(GetParam().error));
}

// Lies about mode scd alone.
FakeConsumer::ReportLie AboutScd(std::function<void(v1::TransferReport&)> tell) {
  return [tell](const v1::Transfer& asked, v1::TransferReport& report) {
    if (asked.mode() == "scd") tell(report);
  };
}

INSTANTIATE_TEST_SUITE_P(
    Lies, LyingConsumer,
    ::testing::Values(ConsumerLie{"fewer tokens", AboutScd([](v1::TransferReport& report) {
                                    report.set_transferred_tokens(report.transferred_tokens() - 1);
                                    report.set_computed_tokens(report.computed_tokens() + 1);
                                  }),
                                  nullptr, "81 tokens were transferred, the plan says 82 of 100"},
                      ConsumerLie{"another mode", AboutScd([](v1::TransferReport& report) {
                                    report.set_mode("local");
                                    report.set_reason("deadline");
                                  }),
                                  nullptr, "mode scd was asked for, local served (deadline"},
                      ConsumerLie{"stored codes",
                                  AboutScd([](v1::TransferReport& report) { report.set_stored_tokens(64); }),
                                  nullptr, "64 tokens came from the producer's code store"},
                      ConsumerLie{"no bytes", AboutScd([](v1::TransferReport& report) {
                                    report.set_received_bytes(0);
                                    report.set_code_bytes(0);
                                  }),
                                  nullptr, "0 bytes of codes"},
                      ConsumerLie{"positions missing", nullptr,
                                  [](const v1::ScoreRequest& request, v1::ScoreResponse& response) {
                                    if (request.transfer().mode() == "scd")
                                      response.mutable_positions()->RemoveLast();
                                  },
                                  "window 0: row \"scd\" (equal): 4 positions were scored instead of 5"},
                      ConsumerLie{"not a number", nullptr,
                                  [](const v1::ScoreRequest& request, v1::ScoreResponse& response) {
                                    if (request.transfer().mode() == "scd")
                                      response.mutable_positions(1)->set_kl(NAN);
                                  },
                                  "position 1"}));

TEST_F(RunEvalTest, AnInterruptWritesWhatThereIs) {
  std::stop_source stop;
  // The sixteenth request is one of the last row's.
  consumer_.PauseRequests([&](grpc::ServerContext& context) {
    if (consumer_.num_requests() < 16) return;
    stop.request_stop();
    while (!context.IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
  });
  const Outcome run = Eval({"table", "--json", folder_.File("out.json"), "--report", folder_.File("report")},
                           stop.get_token());
  EXPECT_EQ(run.exit, EvalExit::kInterrupted);
  EXPECT_THAT(run.err, HasSubstr("interrupted"));
  EXPECT_EQ(Document()["interrupted"], true);
  EXPECT_EQ(Document()["modes"].size(), 2u);
  EXPECT_EQ(testing::ReadFile(folder_.File("report/report.html")), "drawn\n");
}

TEST_F(RunEvalTest, ErrorsHaveTheirExitCodes) {
  EXPECT_EQ(Eval({"tabel"}).exit, EvalExit::kUsage);
  const Outcome unknown = Eval({"table", "--set", "eval.max_token=3"});
  EXPECT_EQ(unknown.exit, EvalExit::kUsage);
  EXPECT_THAT(unknown.err, HasSubstr("max_token"));
  const Outcome nobody = Eval({"table", "--consumer", "127.0.0.1:1"});
  EXPECT_EQ(nobody.exit, EvalExit::kUnreachable);
  EXPECT_THAT(nobody.err, HasSubstr("nothing answers at 127.0.0.1:1"));
  const Outcome data = Eval({"ppl", "--set", "data.windows.path=no/such/file"});
  EXPECT_EQ(data.exit, EvalExit::kFailed);
  EXPECT_THAT(data.err, HasSubstr("no/such/file"));
  const Outcome bundle = Eval({"ablate"});
  EXPECT_EQ(bundle.exit, EvalExit::kFailed);
  EXPECT_THAT(bundle.err, HasSubstr("no/such/folder, cannot be read from here"));
  const Outcome calibrate = Eval({"ablate", "--set", "ablate.run=[calibration_prefixes]"});
  EXPECT_EQ(calibrate.exit, EvalExit::kFailed);
  EXPECT_THAT(calibrate.err, HasSubstr("consumer names a running pair"));
  const Outcome daemons = Eval({"ppl", "--set", "consumer=\"\""});
  EXPECT_EQ(daemons.exit, EvalExit::kFailed);
  EXPECT_THAT(daemons.err, HasSubstr("scd-producer: cannot be run"));
}

TEST_F(RunEvalTest, PathsThatCannotBeWrittenAreFoundBeforeMeasuring) {
  const std::string file = folder_.File("file");
  testing::WriteFile(file, "kept");
  for (const auto& [option, path, reason] : std::vector<std::array<std::string, 3>>{
           {"--json", folder_.File("no/such/out.json"), "No such file or directory"},
           {"--json", folder_.path(), "it is a folder"},
           {"--json", file + "/out.json", "Not a directory"},
           {"--json", "", "it is no file's name"},
           {"--report", file, "file is no folder"},
           {"--report", file + "/new/report", "file is no folder"},
           {"--report", "", "it is no folder's name"}}) {
    const Outcome run = Eval({"ppl", option, path});
    EXPECT_EQ(run.exit, EvalExit::kFailed) << option << " " << path;
    EXPECT_THAT(run.err, AllOf(HasSubstr("'" + path + "'"), HasSubstr(reason)));
  }
  EXPECT_EQ(consumer_.num_requests(), 0);
  EXPECT_EQ(testing::ReadFile(file), "kept");
}

TEST_F(RunEvalTest, LinksAndDevicesStayWhatTheyAre) {
  const std::string link = folder_.File("link");
  testing::WriteFile(folder_.File("out.json"), "old");
  std::filesystem::create_symlink("out.json", link);
  ASSERT_EQ(Eval({"ppl", "--json", link}).exit, EvalExit::kOk);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(Document()["modes"].size(), 3u);

  const std::string null = folder_.File("null");
  std::filesystem::create_symlink("/dev/null", null);
  EXPECT_EQ(Eval({"ppl", "--json", null}).exit, EvalExit::kOk);
  EXPECT_TRUE(std::filesystem::is_symlink(null));

  const std::string full = folder_.File("full");
  std::filesystem::create_symlink("/dev/full", full);
  const Outcome run = Eval({"ppl", "--json", full});
  EXPECT_EQ(run.exit, EvalExit::kFailed);
  EXPECT_THAT(run.err, HasSubstr("No space left on device"));
  EXPECT_TRUE(std::filesystem::is_symlink(full));
}

TEST_F(RunEvalTest, ACheckMeasuresNothing) {
  const Outcome run = Eval({"table", "--check"});
  EXPECT_EQ(run.exit, EvalExit::kOk) << run.err;
  EXPECT_THAT(run.out, HasSubstr("2 windows, 2 questions"));
  EXPECT_EQ(consumer_.num_requests(), 0);
}

TEST_F(RunEvalTest, ReportMergesAndDraws) {
  ASSERT_EQ(Eval({"ppl", "--json", folder_.File("a.json")}).exit, EvalExit::kOk);
  ASSERT_EQ(Eval({"latency", "--json", folder_.File("b.json")}).exit, EvalExit::kOk);
  const Outcome run = Eval({"report", "--report", folder_.File("drawn"), "--json", folder_.File("out.json"),
                            folder_.File("a.json"), folder_.File("b.json")});
  ASSERT_EQ(run.exit, EvalExit::kOk) << run.err;
  EXPECT_EQ(Document()["modes"].size(), 3u);
  EXPECT_EQ(Document()["latency"]["rows"].size(), 4u);
  EXPECT_EQ(Document()["commands"].size(), 2u);
  testing::WriteFile(folder_.File("render.sh"), "echo no matplotlib >&2; exit 1\n");
  const Outcome failed = Eval({"report", "--report", folder_.File("drawn"), folder_.File("a.json")});
  EXPECT_EQ(failed.exit, EvalExit::kFailed);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("ended with exit code 1"), HasSubstr("no matplotlib")));
}

TEST_F(RunEvalTest, CodecsRepeatTheRowsOfCodes) {
  ASSERT_EQ(Eval({"ppl", "--set", "eval.codecs=[bf16, int8]", "--json", folder_.File("out.json")}).exit,
            EvalExit::kOk);
  const json document = Document();
  ASSERT_EQ(document["modes"].size(), 4u);
  EXPECT_EQ(document["modes"][2]["codec"], "bf16");
  EXPECT_EQ(document["modes"][3]["codec"], "int8");
  EXPECT_EQ(document["modes"][3]["row"], "scd, int8");
  EXPECT_EQ(consumer_.transfers().back().plan().codec(), v1::CODEC_INT8);
}

}  // namespace
}  // namespace scd
