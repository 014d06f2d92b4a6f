#include "common/server/command_line.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

std::variant<CommandLine, int> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "scd-test");
  return ParseCommandLine({"scd-test", "Tests things."}, static_cast<int>(arguments.size()),
                          arguments.data());
}

TEST(CommandLineTest, TakesFileOverridesAndCheck) {
  const auto parsed = Parse({"--config", "a.yaml", "--set", "a.b=1", "--set", "list=[1, 2]", "--check"});
  ASSERT_TRUE(std::holds_alternative<CommandLine>(parsed));
  const CommandLine& line = std::get<CommandLine>(parsed);
  EXPECT_EQ(line.config_path, "a.yaml");
  EXPECT_THAT(line.overrides, ElementsAre("a.b=1", "list=[1, 2]"));
  EXPECT_TRUE(line.check);
}

TEST(CommandLineTest, OverridesAreKeptAsTheyAre) {
  const auto parsed = Parse({"--config=a.yaml", "--set=text=a,b c", "--set", "x=-1"});
  ASSERT_TRUE(std::holds_alternative<CommandLine>(parsed));
  EXPECT_THAT(std::get<CommandLine>(parsed).overrides, ElementsAre("text=a,b c", "x=-1"));
  EXPECT_FALSE(std::get<CommandLine>(parsed).check);
}

TEST(CommandLineTest, DaemonsTakeAFolderForTraces) {
  EXPECT_EQ(std::get<CommandLine>(Parse({"--config", "a"})).trace_dir, std::nullopt);
  const std::vector<const char*> arguments = {"scd-test", "--config", "a", "--trace-dir", "x: [y"};
  const auto parse = [&arguments](bool traces) {
    return ParseCommandLine({"scd-test", "Tests things.", traces}, static_cast<int>(arguments.size()),
                            arguments.data());
  };
  EXPECT_EQ(std::get<CommandLine>(parse(true)).trace_dir, "x: [y");
  CaptureStderr();
  EXPECT_EQ(std::get<int>(parse(false)), kExitUsage);
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("trace-dir"));
}

TEST(CommandLineTest, OptionsOfAProgramStandForFields) {
  const auto parse = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), {"scd-test", "--config", "a"});
    return ParseCommandLine({.name = "scd-test",
                             .description = "Tests things.",
                             .fields = {{.name = "--most",
                                         .field = "limits.most",
                                         .value_name = "NUMBER",
                                         .description = "Bounds things"}}},
                            static_cast<int>(arguments.size()), arguments.data());
  };
  EXPECT_THAT(std::get<CommandLine>(parse({})).overrides, ElementsAre());
  // Over the file's and over --set's.
  EXPECT_THAT(std::get<CommandLine>(parse({"--most", "3", "--set", "x=1"})).overrides,
              ElementsAre("x=1", "limits.most=3"));
  CaptureStdout();
  EXPECT_EQ(std::get<int>(parse({"--help"})), kExitOk);
  const std::string help = GetCapturedStdout();
  EXPECT_THAT(help, HasSubstr("--most NUMBER"));
  EXPECT_THAT(help, HasSubstr("Bounds things"));
}

TEST(CommandLineTest, HelpAndVersionEndWithZero) {
  CaptureStdout();
  EXPECT_EQ(std::get<int>(Parse({"--version"})), kExitOk);
  EXPECT_EQ(GetCapturedStdout(), std::string("scd-test ") + kScdVersion + "\n");
  CaptureStdout();
  EXPECT_EQ(std::get<int>(Parse({"--help"})), kExitOk);
  const std::string help = GetCapturedStdout();
  for (const char* text : {"Tests things.", "--config", "--set", "--check", "--version"}) {
    EXPECT_THAT(help, HasSubstr(text));
  }
}

TEST(CommandLineTest, WrongLinesEndWithTwoAndAReason) {
  const std::vector<std::vector<const char*>> lines = {{},
                                                       {"--config"},
                                                       {"--config", "a", "--unknown"},
                                                       {"--config", "a", "stray"},
                                                       {"--config", "a", "--set"},
                                                       {"--config", "a", "--check=maybe"}};
  for (const std::vector<const char*>& line : lines) {
    CaptureStderr();
    const auto parsed = Parse(line);
    const std::string error = GetCapturedStderr();
    ASSERT_TRUE(std::holds_alternative<int>(parsed)) << ::testing::PrintToString(line);
    EXPECT_EQ(std::get<int>(parsed), kExitUsage);
    EXPECT_THAT(error, HasSubstr("scd-test: "));
  }
}

}  // namespace
}  // namespace scd
