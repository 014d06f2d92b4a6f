// Children of scd-eval, played by shell scripts: whatever happens, none is left.
#include "eval/child_daemons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "eval/calibration_runs.h"
#include "eval/child_process.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

bool IsGone(pid_t pid) {
  return kill(pid, 0) != 0 && errno == ESRCH;
}

// A folder of programs that are shell scripts.
class ScriptsTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& body) {
    testing::WriteFile(folder_.File(name), "#!/bin/sh\n" + body + "\n");
    chmod(folder_.File(name).c_str(), 0755);
  }
  DaemonsConfig Config(std::int64_t start_timeout_s = 10) const {
    return {.programs = folder_.path(),
            .producer_config = "p.yaml",
            .consumer_config = "c.yaml",
            .producer_set = {},
            .consumer_set = {},
            .bundle = "",
            .start_timeout_s = start_timeout_s,
            .stop_timeout_s = 1};
  }
  // The pid that a script wrote with `echo $$ > FILE`.
  pid_t PidIn(const std::string& name) const { return std::stoi(testing::ReadFile(folder_.File(name))); }
  std::string NotePid(const std::string& name) const { return "echo $$ > " + folder_.File(name); }

  testing::TempDir folder_;
};

TEST_F(ScriptsTest, AProgramThatDoesNotExistIsNamed) {
  const auto child = ChildProcess::Start(folder_.File("none"), {});
  EXPECT_TRUE(absl::IsNotFound(child.status())) << child.status();
  EXPECT_THAT(std::string(child.status().message()), HasSubstr("none: cannot be run"));
  testing::WriteFile(folder_.File("plain"), "text");
  EXPECT_TRUE(absl::IsPermissionDenied(ChildProcess::Start(folder_.File("plain"), {}).status()));
}

TEST_F(ScriptsTest, AChildGetsItsArgumentsAndItsOutputIsKept) {
  Write("say", R"(echo "$1"; echo "$2" >&2; exit 3)");
  const auto child = ChildProcess::Start(folder_.File("say"), {"one two", "three"});
  ASSERT_TRUE(child.ok()) << child.status();
  const auto exit_code = (*child)->Wait(absl::Seconds(10), {});
  ASSERT_TRUE(exit_code.ok());
  EXPECT_EQ(*exit_code, 3);
  EXPECT_EQ((*child)->LastLines(10), "  one two\n  three\n");
  EXPECT_EQ((*child)->LastLines(1), "  three\n");
  EXPECT_EQ((*child)->FirstOutput(3), "one");
}

TEST_F(ScriptsTest, AChildThatIgnoresSigtermIsKilled) {
  Write("stubborn", "trap '' TERM; echo up; while :; do sleep 0.05; done");
  auto child = ChildProcess::Start(folder_.File("stubborn"), {});
  ASSERT_TRUE(child.ok());
  while ((*child)->FirstOutput(2).empty()) absl::SleepFor(absl::Milliseconds(5));
  const pid_t pid = (*child)->pid();
  (*child)->End(absl::Milliseconds(200));
  EXPECT_EQ((*child)->ExitCode(), -SIGKILL);
  EXPECT_TRUE(IsGone(pid));
}

TEST_F(ScriptsTest, AChildEndsWithItsObject) {
  Write("sleeper", "exec sleep 100");
  pid_t pid = 0;
  {
    const auto child = ChildProcess::Start(folder_.File("sleeper"), {});
    ASSERT_TRUE(child.ok());
    pid = (*child)->pid();
    EXPECT_TRUE(absl::IsDeadlineExceeded((*child)->Wait(absl::Milliseconds(50), {}).status()));
    EXPECT_FALSE(IsGone(pid));
  }
  EXPECT_TRUE(IsGone(pid));
}

TEST_F(ScriptsTest, ADaemonThatDiesAtItsStartIsAnErrorWithItsLastWords) {
  Write("scd-producer", "echo 'p.yaml:3: model.path: no such file' >&2; exit 2");
  Write("scd-consumer", NotePid("consumer.pid"));
  const auto daemons = ChildDaemons::Start(Config(), {});
  EXPECT_TRUE(absl::IsUnavailable(daemons.status())) << daemons.status();
  EXPECT_THAT(std::string(daemons.status().message()),
              AllOf(HasSubstr("scd-producer ended with exit code 2 before it served"),
                    HasSubstr("p.yaml:3: model.path: no such file")));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("consumer.pid")));
}

TEST_F(ScriptsTest, ADaemonThatNeverServesIsEndedAfterItsTime) {
  Write("scd-producer", NotePid("producer.pid") + "; echo 'info  mapping weights'; exec sleep 100");
  const auto daemons = ChildDaemons::Start(Config(/*start_timeout_s=*/1), {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(daemons.status())) << daemons.status();
  EXPECT_THAT(std::string(daemons.status().message()),
              AllOf(HasSubstr("scd-producer does not serve after 1s"), HasSubstr("mapping weights")));
  EXPECT_TRUE(IsGone(PidIn("producer.pid")));
}

TEST_F(ScriptsTest, ADaemonThatSaysItListensAndDoesNotIsNotTakenAtItsWord) {
  Write("scd-producer",
        NotePid("producer.pid") +
            "; echo 'info  scd-producer 0.1.0 listens on 127.0.0.1:1, metrics on no port: x'; "
            "exec sleep 100");
  const auto daemons = ChildDaemons::Start(Config(/*start_timeout_s=*/1), {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(daemons.status())) << daemons.status();
  EXPECT_TRUE(IsGone(PidIn("producer.pid")));
}

TEST_F(ScriptsTest, AnInterruptWhileTheyStartLeavesNoProcess) {
  Write("scd-producer", NotePid("producer.pid") + "; exec sleep 100");
  std::stop_source stop;
  std::thread interrupt([&] {
    while (!std::filesystem::exists(folder_.File("producer.pid"))) absl::SleepFor(absl::Milliseconds(5));
    stop.request_stop();
  });
  const auto daemons = ChildDaemons::Start(Config(/*start_timeout_s=*/60), stop.get_token());
  interrupt.join();
  EXPECT_TRUE(absl::IsCancelled(daemons.status())) << daemons.status();
  EXPECT_TRUE(IsGone(PidIn("producer.pid")));
}

TEST_F(ScriptsTest, ArgumentsAreTheOperatorsThenOurs) {
  DaemonsConfig config = Config();
  config.producer_set = {"threads=2"};
  config.consumer_set = {"math=f32"};
  EXPECT_THAT(ProducerArguments(config),
              ElementsAre("--config", "p.yaml", "--set", "threads=2", "--set", "server.listen=127.0.0.1:0",
                          "--set", "metrics.listen=off", "--set", "log.level=info"));
  config.bundle = "my bundle";
  EXPECT_THAT(ProducerArguments(config), ::testing::Contains("bundles=[\"my bundle\"]"));
  EXPECT_THAT(ConsumerArguments(config, "127.0.0.1:5"),
              AllOf(::testing::Contains("math=f32"), ::testing::Contains("bundle=\"my bundle\""),
                    ::testing::Contains("producer.address=127.0.0.1:5")));
}

TEST_F(ScriptsTest, BundlesAreFittedOnceForEachSize) {
  // Makes the bundle that --set output= names, and counts its runs.
  Write("scd-calibrate",
        "echo \"$@\" >> " + folder_.File("runs") +
            "; for a; do case \"$a\" in output=*) d=${a#output=\\\"}; d=${d%\\\"}; mkdir -p \"$d\"; "
            "echo {} > \"$d/manifest.json\";; esac; done");
  EvalConfig config;
  config.daemons.programs = folder_.path();
  config.ablate.calibrate_config = "cal.yaml";
  config.ablate.calibrate_set = {"threads=1"};
  const auto log = MakeStderrLog(LogLevel::kError);
  const auto bundle = FitBundle(config, 25, folder_.path(), *log, {});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(*bundle, folder_.File("bundle-25"));
  EXPECT_THAT(testing::ReadFile(folder_.File("runs")),
              AllOf(HasSubstr("--config cal.yaml --set threads=1 --set corpus.max_prefixes=25"),
                    HasSubstr("work-25")));
  ASSERT_TRUE(FitBundle(config, 25, folder_.path(), *log, {}).ok());
  const std::string runs = testing::ReadFile(folder_.File("runs"));
  EXPECT_EQ(std::count(runs.begin(), runs.end(), '\n'), 1);

  Write("scd-calibrate", "echo 'no corpus'; exit 1");
  EXPECT_THAT(
      std::string(FitBundle(config, 60, folder_.path(), *log, {}).status().message()),
      AllOf(HasSubstr("scd-calibrate ended with exit code 1 on 60 prefixes"), HasSubstr("no corpus")));
}

TEST(CalibrationFolderTest, ATemporaryOneGoesAndAConfiguredOneStays) {
  std::string temporary;
  {
    const auto folder = CalibrationFolder::Create("");
    ASSERT_TRUE(folder.ok());
    temporary = folder->path();
    EXPECT_TRUE(std::filesystem::is_directory(temporary));
  }
  EXPECT_FALSE(std::filesystem::exists(temporary));
  const testing::TempDir parent;
  { ASSERT_TRUE(CalibrationFolder::Create(parent.File("a/b")).ok()); }
  EXPECT_TRUE(std::filesystem::is_directory(parent.File("a/b")));
}

}  // namespace
}  // namespace scd
