#include "eval/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

EvalOptions Parsed(const std::vector<std::string>& arguments) {
  const ParsedEvalCommandLine line = ParseEvalCommandLine(arguments);
  EXPECT_TRUE(line.options.has_value()) << line.message;
  return line.options.value_or(EvalOptions());
}

TEST(EvalOptionsTest, EverySubcommandIsKnownByItsName) {
  for (const EvalCommand command :
       {EvalCommand::kPpl, EvalCommand::kQa, EvalCommand::kDivergence, EvalCommand::kLatency,
        EvalCommand::kTable, EvalCommand::kAblate, EvalCommand::kDrift}) {
    EXPECT_EQ(Parsed({EvalCommandName(command)}).command, command) << EvalCommandName(command);
  }
}

TEST(EvalOptionsTest, ShorthandsAreOverrides) {
  const EvalOptions options = Parsed({"table", "--config", "a.yaml", "--set", "eval.max_tokens=3", "--set",
                                      "eval.codecs=[bf16]", "--consumer", "h:1", "--windows", "4",
                                      "--questions", "0", "--json", "t.json", "--report", "out"});
  EXPECT_EQ(options.config_path, "a.yaml");
  EXPECT_THAT(options.overrides, ElementsAre("eval.max_tokens=3", "eval.codecs=[bf16]", "consumer=\"h:1\"",
                                             "data.windows.count=4", "data.questions.count=0"));
  EXPECT_EQ(options.json_path, "t.json");
  EXPECT_EQ(options.report_folder, "out");
}

TEST(EvalOptionsTest, OverridesOfTheDaemonsAreAddedToTheirs) {
  const EvalOptions options = Parsed({"ppl", "--bundle", "a \"b\"", "--producer-set", "threads=2",
                                      "--producer-set", "math=f32", "--consumer-set", "x=y"});
  EXPECT_THAT(options.overrides, ElementsAre("daemons.bundle=\"a \\\"b\\\"\""));
  EXPECT_THAT(options.producer_set, ElementsAre("threads=2", "math=f32"));
  EXPECT_THAT(options.consumer_set, ElementsAre("x=y"));
}

TEST(EvalOptionsTest, ReportTakesDocumentsAndAFolder) {
  const EvalOptions options = Parsed({"report", "--report", "out", "a.json", "b.json"});
  EXPECT_EQ(options.command, EvalCommand::kReport);
  EXPECT_THAT(options.documents, ElementsAre("a.json", "b.json"));
}

TEST(EvalOptionsTest, HelpSaysWhatThereIs) {
  const ParsedEvalCommandLine help = ParseEvalCommandLine({"--help"});
  EXPECT_EQ(help.exit, EvalExit::kOk);
  for (const char* part :
       {"ppl", "qa", "divergence", "latency", "table", "ablate", "drift", "report", "Exit codes"}) {
    EXPECT_THAT(help.message, HasSubstr(part));
  }
  EXPECT_THAT(ParseEvalCommandLine({"table", "--help"}).message, HasSubstr("--questions"));
  EXPECT_THAT(ParseEvalCommandLine({"--version"}).message, HasSubstr("scd-eval "));
}

class WrongUsage : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(WrongUsage, IsRefused) {
  const ParsedEvalCommandLine line = ParseEvalCommandLine(GetParam());
  EXPECT_FALSE(line.options.has_value());
  EXPECT_EQ(line.exit, EvalExit::kUsage);
  EXPECT_FALSE(line.message.empty());
}

INSTANTIATE_TEST_SUITE_P(CommandLines, WrongUsage,
                         ::testing::Values(std::vector<std::string>{}, std::vector<std::string>{"tabel"},
                                           std::vector<std::string>{"table", "--widnows", "3"},
                                           std::vector<std::string>{"table", "--windows", "-3"},
                                           std::vector<std::string>{"table", "--link-mbit", "100"},
                                           std::vector<std::string>{"latency", "--link-mbit", "0"},
                                           std::vector<std::string>{"ppl", "--consumer", "h:1", "--bundle",
                                                                    "b"},
                                           std::vector<std::string>{"report", "a.json"},
                                           std::vector<std::string>{"report", "--report", "out"}));

}  // namespace
}  // namespace scd
