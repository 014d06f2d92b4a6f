// scd-eval on the real pair: its tables hold the figures of the reference measurement (TARGETS.md).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/daemon_pair.h"
#include "tests/e2e/e2e_paths.h"
#include "tests/support/daemon.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd::testing {
namespace {

using nlohmann::json;

constexpr absl::Duration kTimeout =
    absl::Minutes(20);                  // machines that are busy with other things take their time
constexpr double kRawTolerance = 0.03;  // relative: nothing is fitted

// Rows of the reference, by name: KL in nats and perplexity of the windows that they were measured on.
struct Expected {
  double kl;
  double ppl;
  double kl_tolerance;   // relative
  double ppl_tolerance;  // absolute
};
const std::map<std::string, Expected> kTenWindows = {
    {"raw re-roped", {0.0764, 18.26, kRawTolerance, 18.26 * kRawTolerance}},
    {"reuse", {kReuseTail0.kl, kReuseTail0.ppl, kKlTolerance, kPplTolerance}},
    {"reuse tail 16", {kReuseTail16.kl, kReuseTail16.ppl, kKlTolerance, kPplTolerance}},
    {"selective", {0.0329, 17.42, kKlTolerance, kPplTolerance}},
    {"selective tail 16", {0.0278, 17.36, kKlTolerance, kPplTolerance}},
};
const std::map<std::string, Expected> kEightWindows = {
    {"raw", {0.166, 18.66, kRawTolerance, 18.66 * kRawTolerance}},
    {"4 bits re-roped", {0.0767, 17.20, kKlTolerance, kPplTolerance}},
    {"reuse head 0", {0.424, 22.65, kKlTolerance, 22.65 * kKlTolerance}},
};

constexpr char kTenWindowRows[] = R"([
  {mode: local},
  {mode: raw_rerope, name: raw re-roped},
  {mode: selective, name: selective, native_head: 1, recompute_layers: [10, 29]},
  {mode: selective, name: selective tail 16, native_head: 1, native_tail: 16, recompute_layers: [10, 29]},
  {mode: reuse, name: reuse, native_head: 1},
  {mode: reuse, name: reuse tail 16, native_head: 1, native_tail: 16},
  {mode: scd, name: scd, native_head: 1}])";
constexpr char kEightWindowRows[] = R"([
  {mode: raw, name: raw},
  {mode: quantized_rerope, name: 4 bits re-roped, codec: int4},
  {mode: reuse, name: reuse head 0}])";

class EvalQualityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SCD_SHARED_OR_SKIP(windows, "data/eval_lm.jsonl");
    SCD_SHARED_OR_SKIP(questions, "data/eval_qa.jsonl");
    SCD_BASE_MODEL_OR_SKIP(base);
    const auto bundle = ReferenceBundlePath();
    ASSERT_TRUE(bundle.has_value()) << "the fixture that fits the reference bundle did not make it";
    const auto set = [this](const char* option, const std::string& value) {
      arguments_.push_back(option);
      arguments_.push_back(value);
    };
    set("--config", ShippedConfig("eval"));
    set("--set", absl::StrCat("daemons.producer_config=", ShippedConfig("producer")));
    set("--set", absl::StrCat("daemons.consumer_config=", ShippedConfig("consumer")));
    set("--set", absl::StrCat("data.windows.path=", windows));
    set("--set", absl::StrCat("data.questions.path=", questions));
    set("--bundle", *bundle);
    set("--producer-set", absl::StrCat("model.path=", base));
    set("--consumer-set", absl::StrCat("model.path=", base));
    set("--consumer-set", absl::StrCat("model.adapter=", ExpertAdapterPath()));
    for (const char* const side : {"--producer-set", "--consumer-set"}) {
      set(side, "math=f32");
      set(side, "model.weights=f32");
    }
    set("--json", folder_.File("out.json"));
  }

  // Rows of the table by name.
  std::map<std::string, json> Run(const std::string& command, const std::string& rows, int windows) {
    std::vector<std::string> arguments = {command};
    arguments.insert(arguments.end(), arguments_.begin(), arguments_.end());
    arguments.insert(arguments.end(), {"--set", "rows=" + rows, "--windows", std::to_string(windows),
                                       "--questions", "3", "--set", "eval.ready_questions=1"});
    const ProgramRun run = RunProgram("scd-eval", arguments, kTimeout);
    EXPECT_EQ(run.exit_code, 0) << run.output;
    std::printf("%s\n", run.output.c_str());
    std::map<std::string, json> modes;
    if (run.exit_code != 0) return modes;
    const json document = json::parse(ReadFile(folder_.File("out.json")));
    for (const json& row : document.at("modes")) modes[row.at("row")] = row;
    return modes;
  }

  static void ExpectInBands(const std::map<std::string, Expected>& bands,
                            std::map<std::string, json>& modes) {
    for (const auto& [name, band] : bands) {
      ASSERT_TRUE(modes.contains(name)) << name;
      EXPECT_NEAR(modes[name]["kl"].get<double>(), band.kl, band.kl * band.kl_tolerance) << name;
      EXPECT_NEAR(modes[name]["ppl"].get<double>(), band.ppl, band.ppl_tolerance) << name;
    }
  }

  std::vector<std::string> arguments_;
  TempDir folder_;
};

TEST_F(EvalQualityTest, TablesAreThoseOfTheReferenceMeasurement) {
  auto ten = Run("table", kTenWindowRows, 10);
  ASSERT_EQ(ten.size(), 7u);
  EXPECT_EQ(ten["local"]["kl"], 0.0);
  EXPECT_NEAR(ten["local"]["ppl"].get<double>(), kOraclePpl, kPplTolerance);
  ExpectInBands(kTenWindows, ten);
  // Patch is trained: better than the reference is no fault.
  EXPECT_LT(ten["scd"]["kl"].get<double>(), kPatchTail0.kl * (1 + kKlTolerance));
  EXPECT_GT(ten["scd"]["kl"].get<double>(), kPatchKlCeiling * (1 - kKlTolerance));
  EXPECT_LT(ten["scd"]["ppl"].get<double>(), kPatchTail0.ppl + kPplTolerance);
  // Bytes of codes follow from the plans.
  EXPECT_EQ(ten["raw re-roped"]["code_bytes_per_transferred_token"], 23040.0);
  EXPECT_EQ(ten["reuse"]["code_bytes_per_transferred_token"], 13440.0);
  EXPECT_EQ(ten["scd"]["code_bytes_per_transferred_token"], 17664.0);
  EXPECT_EQ(ten["selective"]["code_bytes_per_transferred_token"], 8832.0);
  // The order of the rows.
  EXPECT_LT(ten["scd"]["kl"], ten["reuse"]["kl"]);
  EXPECT_LT(ten["reuse"]["kl"], ten["raw re-roped"]["kl"]);
  EXPECT_LT(ten["selective"]["kl"], ten["raw re-roped"]["kl"]);
  EXPECT_LT(ten["reuse tail 16"]["kl"], ten["reuse"]["kl"]);

  auto eight = Run("ppl", kEightWindowRows, 8);
  ASSERT_EQ(eight.size(), 3u);
  ExpectInBands(kEightWindows, eight);
}

}  // namespace
}  // namespace scd::testing
