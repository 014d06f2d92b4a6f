// scd-calibrate as a process: whole runs of a tiny pair, kills, signals, mistakes and memory.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/bundle/bundle.h"
#include "common/model/model_source.h"
#include "tests/calibrate/tiny_pair.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class Process {
 public:
  Process(std::vector<std::string> arguments, const std::string& log_path) : log_path_(log_path) {
    arguments.insert(arguments.begin(), SCD_CALIBRATE_BINARY);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      dup2(log, STDOUT_FILENO);
      dup2(log, STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~Process() {
    if (!ended_) {
      Signal(SIGKILL);
      Wait();
    }
  }

  pid_t pid() const { return pid_; }
  void Signal(int signal) { kill(pid_, signal); }
  bool Running() {
    if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
    return !ended_;
  }
  // The exit code, or minus the signal that ended it.
  int Wait() {
    if (!ended_) waitpid(pid_, &status_, 0);
    ended_ = true;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }
  std::string Log() const { return testing::ReadFile(log_path_); }

 private:
  const std::string log_path_;
  pid_t pid_ = 0;
  int status_ = 0;
  bool ended_ = false;
};

// Prefixes that the record of the traces counts; 0 where there is none yet.
std::int64_t PrefixesKept(const std::string& work) {
  constexpr std::size_t kHeaderBytes = 56;
  const std::string record = testing::ReadFile(work + "/traces.record");
  std::int64_t count = 0;
  if (record.size() >= kHeaderBytes + sizeof(count))
    std::memcpy(&count, record.data() + kHeaderBytes, sizeof(count));
  return count;
}

// "traces: 60 forward passes": how many the log says.
std::int64_t ForwardPasses(const std::string& log) {
  const std::size_t end = log.find(" forward passes");
  const std::size_t begin = log.rfind(' ', end - 1);
  std::int64_t count = -1;
  EXPECT_TRUE(absl::SimpleAtoi(log.substr(begin + 1, end - begin - 1), &count)) << log;
  return count;
}

class CalibrateBinaryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::WriteTinyModel(dir_.File("producer"), 0.0f);
    testing::WriteTinyModel(dir_.File("consumer"), 0.1f);
    WriteCorpus(30, 60);
  }

  void WriteCorpus(std::int64_t prefixes, std::int64_t tokens) {
    testing::WriteFile(dir_.File("corpus.jsonl"), testing::RandomIdsJsonl(prefixes, tokens, 9));
  }

  std::string Config(const std::string& name, const std::string& more = "") {
    const std::string yaml = absl::StrReplaceAll(R"(
producer: {path: $/producer}
consumer: {path: $/consumer}
output: $/#/bundle
work_dir: $/#/work
threads: 2
corpus: {sources: [{jsonl: $/corpus.jsonl}]}
ranks: {k: 10, v: 12, h: [24, 48]}
native_tail: 4
aligner: {mlp_width: 32, max_epochs: 2, batch_rows: 128}
fused: {group: 3}
entropy: {distortions: [0.02, 0.08], default: 0.08}
measure: {sweep_prefixes: 2, scored_tokens: 8}
trace: {pass_tokens: 60, checkpoint_prefixes: 1}
)",
                                                 {{"$", dir_.path()}, {"#", name}});
    fs::create_directories(dir_.File(name));
    const std::string path = dir_.File(name + ".yaml");
    testing::WriteFile(path, yaml + more);
    return path;
  }

  Process Start(const std::string& name, const std::string& config, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"--config", config};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Process(arguments, dir_.File(name + ".log"));
  }

  std::unique_ptr<Bundle> OpenBundle(const std::string& name) {
    auto bundle = Bundle::Open(dir_.File(name + "/bundle"));
    EXPECT_TRUE(bundle.ok()) << bundle.status();
    return *std::move(bundle);
  }

  // Waits until done() or the process ended; a millisecond at a time.
  static void WaitFor(Process& process, const std::function<bool()>& done) {
    while (process.Running() && !done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  testing::TempDir dir_;
};

TEST_F(CalibrateBinaryTest, AWholeRunGivesABundleThatADaemonTakes) {
  const std::string config = Config("run", "patch: {count: 2, num_candidates: 3}\n");
  Process check = Start("check", config, {"--check"});
  ASSERT_EQ(check.Wait(), 0) << check.Log();
  EXPECT_THAT(check.Log(), HasSubstr("is good"));
  EXPECT_FALSE(fs::exists(dir_.File("run/work")));

  Process run = Start("run", config);
  ASSERT_EQ(run.Wait(), 0) << run.Log();
  EXPECT_FALSE(fs::exists(dir_.File("run/work")));
  const auto bundle = OpenBundle("run");
  const BundleManifest& m = bundle->manifest();
  EXPECT_EQ(m.num_layers, 4);
  EXPECT_EQ(m.max_rank_k, 16);
  EXPECT_EQ(m.default_rank_v, 12);
  EXPECT_THAT(m.ranks_h, ElementsAre(24, 48));
  EXPECT_EQ(m.candidate_layers.size(), 3u);
  EXPECT_LE(m.default_patch_layers.size(), 2u);
  EXPECT_EQ(m.calibration.num_prefixes, 30);
  EXPECT_EQ(m.calibration.num_tokens, 30 * 60);
  EXPECT_EQ(m.calibration.num_held_out_prefixes, 3);
  EXPECT_EQ(m.calibration.corpus, "30 prefixes of corpus.jsonl");
  EXPECT_GT(m.quality.kl_reuse, 0.0);
  EXPECT_GT(m.quality.ppl_native, 1.0);
  EXPECT_GT(m.selective.kl_raw, 0.0);
  EXPECT_GE(m.selective.groups.size(), 9u);
  EXPECT_TRUE(bundle->ResolvePlan({.form = StateForm::kSelective}).ok());
  for (const LayerErrors& errors : m.layer_errors) {
    EXPECT_GT(errors.k, 0.0);
    EXPECT_LT(errors.v, 1.0);
    EXPECT_GT(errors.kv, 0.0);
    EXPECT_LT(errors.kv, 1.0);
  }
  EXPECT_EQ(m.fused.group, 3);
  EXPECT_LE(m.fused.rank, 96);
  EXPECT_GT(m.quality.kl_fused, 0.0);
  EXPECT_GT(m.quality.ppl_fused, 1.0);
  ASSERT_EQ(m.rate_points.size(), 2u);
  EXPECT_EQ(m.rate_points[0].distortion, 0.02);
  EXPECT_GT(m.rate_points[0].bytes_per_token, m.rate_points[1].bytes_per_token);
  EXPECT_GT(m.rate_points[1].kl, 0.0);
  EXPECT_EQ(m.default_rate_point, 1);
  const LayerPlan fused = bundle->ResolvePlan({.form = StateForm::kFused}).value();
  EXPECT_EQ(fused.codec, Codec::kEntropy);
  EXPECT_TRUE(bundle->ResolvePlan({.codec = Codec::kEntropy, .distortion = 0.02}).ok());
  const Model producer = OpenModel({dir_.File("producer"), "", ""}).value();
  const Model consumer = OpenModel({dir_.File("consumer"), "", ""}).value();
  EXPECT_TRUE(bundle->CheckProducer(producer.digest, producer.tokenizer->digest()).ok());
  EXPECT_TRUE(bundle->CheckConsumer(consumer.digest, consumer.tokenizer->digest()).ok());
  EXPECT_FALSE(bundle->CheckConsumer(producer.digest, producer.tokenizer->digest()).ok());
}

TEST_F(CalibrateBinaryTest, KilledAtFourFifthsItGoesOnAndGivesTheSameBundle) {
  constexpr std::int64_t kPrefixes = 100;
  WriteCorpus(kPrefixes, 60);
  const std::string more = "patch: {layers: [2, 1], candidates: [2, 1]}\n";
  Process whole = Start("whole", Config("whole", more));
  ASSERT_EQ(whole.Wait(), 0) << whole.Log();
  EXPECT_EQ(ForwardPasses(whole.Log()), 2 * kPrefixes);

  const std::string config = Config("killed", more);
  Process first = Start("first", config);
  WaitFor(first, [&] { return PrefixesKept(dir_.File("killed/work")) >= kPrefixes * 4 / 5; });
  first.Signal(SIGKILL);
  ASSERT_EQ(first.Wait(), -SIGKILL) << first.Log();
  const std::int64_t kept = PrefixesKept(dir_.File("killed/work"));
  ASSERT_GE(kept, kPrefixes * 4 / 5);
  EXPECT_FALSE(fs::exists(dir_.File("killed/bundle")));

  Process second = Start("second", config);
  ASSERT_EQ(second.Wait(), 0) << second.Log();
  EXPECT_THAT(second.Log(), HasSubstr(absl::StrCat(kept, " of 100 prefixes were done by an earlier run")));
  EXPECT_EQ(ForwardPasses(second.Log()), 2 * (kPrefixes - kept));
  EXPECT_EQ(OpenBundle("killed")->digest(), OpenBundle("whole")->digest());
}

TEST_F(CalibrateBinaryTest, KilledDuringTheAlignersItKeepsThoseThatAreReady) {
  const std::string more = "patch: {layers: [2, 1], candidates: [2, 1, 0, 3]}\n";
  Process whole = Start("whole", Config("whole", more));
  ASSERT_EQ(whole.Wait(), 0) << whole.Log();

  const std::string config = Config("killed", more);
  Process first = Start("first", config);
  WaitFor(first, [&] { return fs::exists(dir_.File("killed/work/patch-2.record")); });
  first.Signal(SIGKILL);
  ASSERT_EQ(first.Wait(), -SIGKILL) << first.Log();
  Process second = Start("second", config);
  ASSERT_EQ(second.Wait(), 0) << second.Log();
  EXPECT_EQ(ForwardPasses(second.Log()), 0);
  EXPECT_THAT(second.Log(), HasSubstr("layers were fitted by an earlier run"));
  EXPECT_EQ(OpenBundle("killed")->digest(), OpenBundle("whole")->digest());
}

TEST_F(CalibrateBinaryTest, KilledDuringTheFusedFitsItKeepsLayersThatAreReady) {
  const std::string more = "patch: {layers: []}\nselective: {profile: false}\n";
  Process whole = Start("whole", Config("whole", more));
  ASSERT_EQ(whole.Wait(), 0) << whole.Log();

  const std::string config = Config("killed", more);
  Process first = Start("first", config);
  WaitFor(first, [&] { return fs::exists(dir_.File("killed/work/fused-3.record")); });
  first.Signal(SIGKILL);
  ASSERT_EQ(first.Wait(), -SIGKILL) << first.Log();
  Process second = Start("second", config);
  ASSERT_EQ(second.Wait(), 0) << second.Log();
  EXPECT_THAT(second.Log(), HasSubstr("layers were fitted by an earlier run"));
  EXPECT_EQ(OpenBundle("killed")->digest(), OpenBundle("whole")->digest());
}

TEST_F(CalibrateBinaryTest, ATargetChoosesTheRateOrLeavesTheOldBundle) {
  const std::string config =
      Config("run", "patch: {layers: []}\nselective: {profile: false}\nkeep_work: true\n");
  Process plain = Start("plain", config);
  ASSERT_EQ(plain.Wait(), 0) << plain.Log();
  const auto before = OpenBundle("run");
  const double bytes = before->manifest().rate_points[0].bytes_per_token;
  const double fewer = before->manifest().rate_points[1].bytes_per_token;

  Process refused = Start("refused", config, {"--target-kl", "1e-9"});
  EXPECT_EQ(refused.Wait(), 1) << refused.Log();
  EXPECT_THAT(refused.Log(), HasSubstr("entropy.target_kl: 1e-09 cannot be met; the closest: at distortion"));
  EXPECT_EQ(OpenBundle("run")->digest(), before->digest());

  const double target = 0.5 * (bytes + fewer);
  Process met = Start("met", config, {"--target-bytes", absl::StrCat(target)});
  ASSERT_EQ(met.Wait(), 0) << met.Log();
  EXPECT_EQ(ForwardPasses(met.Log()), 0);
  const auto bundle = OpenBundle("run");
  const BundleManifest& m = bundle->manifest();
  ASSERT_EQ(m.rate_points.size(), 3u);
  EXPECT_EQ(m.default_rate_point, 1);
  EXPECT_LE(m.rate_points[1].bytes_per_token, target);
  EXPECT_GE(m.rate_points[1].bytes_per_token, 0.95 * target);

  Process both = Start("both", config, {"--target-bytes=9", "--target-kl=1"});
  EXPECT_EQ(both.Wait(), 2) << both.Log();
  EXPECT_THAT(both.Log(), HasSubstr("entropy.target_bytes: given beside target_kl"));
}

TEST_F(CalibrateBinaryTest, WithoutFusedAndEntropyTheBundleHasNeither) {
  const std::string config = Config("run", "patch: {layers: []}\nselective: {profile: false}\n");
  Process run = Start("run", config,
                      {"--set", "fused.rank=0", "--set", "entropy.distortions=[]", "--set", "reuse.fit=rrr"});
  ASSERT_EQ(run.Wait(), 0) << run.Log();
  const auto bundle = OpenBundle("run");
  const BundleManifest& m = bundle->manifest();
  EXPECT_EQ(m.fused, FusedShape());
  EXPECT_TRUE(m.rate_points.empty());
  EXPECT_EQ(m.quality.kl_fused, 0.0);
}

TEST_F(CalibrateBinaryTest, SigtermEndsItCleanlyAndTheNextRunGoesOn) {
  WriteCorpus(100, 60);
  const std::string config = Config("run", "patch: {layers: []}\nselective: {profile: false}\n");
  Process first = Start("first", config);
  WaitFor(first, [&] { return PrefixesKept(dir_.File("run/work")) >= 10; });
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 3) << first.Log();
  EXPECT_THAT(first.Log(), HasSubstr("the same command goes on from there"));
  const std::int64_t kept = PrefixesKept(dir_.File("run/work"));
  EXPECT_GE(kept, 10);
  Process second = Start("second", config);
  ASSERT_EQ(second.Wait(), 0) << second.Log();
  EXPECT_EQ(ForwardPasses(second.Log()), 2 * (100 - kept));
  EXPECT_TRUE(OpenBundle("run")->manifest().candidate_layers.empty());
  EXPECT_EQ(OpenBundle("run")->manifest().selective.default_group, std::nullopt);
}

TEST_F(CalibrateBinaryTest, WithoutDataItSamplesItsOwn) {
  testing::WriteFile(dir_.File("seeds.txt"), "Hello there\n\nContext: a {20}\nAnswer:\n");
  const std::string config = Config("run", "patch: {layers: [1], candidates: [1]}\n");
  Process run =
      Start("run", config,
            {"--set", absl::StrCat("corpus.sources=[{self_sample: {num_prefixes: 40, tokens: 50, seeds: ",
                                   dir_.File("seeds.txt"), "}}]")});
  ASSERT_EQ(run.Wait(), 0) << run.Log();
  const auto bundle = OpenBundle("run");
  EXPECT_EQ(bundle->manifest().calibration.corpus, "40 prefixes sampled from the two models");
  EXPECT_THAT(bundle->manifest().default_patch_layers, ElementsAre(1));
}

TEST_F(CalibrateBinaryTest, MistakesAreToldWithFieldAndFile) {
  const auto fails = [&](const std::string& config, std::vector<std::string> more, int code) {
    Process run = Start("bad", config, std::move(more));
    EXPECT_EQ(run.Wait(), code) << run.Log();
    return run.Log();
  };
  const std::string good = Config("run", "patch: {layers: []}\n");
  EXPECT_THAT(fails(good, {"--set", "rank.k=3"}, 2), HasSubstr("rank"));
  EXPECT_THAT(fails(good, {"--set", "ranks.k=0"}, 2), HasSubstr("ranks.k"));
  EXPECT_THAT(fails(good, {"--set", "ranks.k=17"}, 1), HasSubstr("ranks.k: 17 is over"));
  EXPECT_THAT(fails(good, {"--set", "selective.default=[2, 4]"}, 1), HasSubstr("selective.default: layer 4"));
  EXPECT_THAT(fails(dir_.File("none.yaml"), {}, 2), HasSubstr("none.yaml"));
  EXPECT_THAT(fails(good, {"--set", "consumer.path=/none"}, 1), HasSubstr("/none"));
  EXPECT_THAT(fails(good, {"--set", "output=/proc/none/bundle"}, 1), HasSubstr("output: /proc/none/bundle"));
  EXPECT_THAT(fails(good, {"--set", "output=/proc/none/bundle", "--check"}, 1), HasSubstr("output"));
  EXPECT_THAT(fails(good, {"--set", "work_dir=/proc/none"}, 1), HasSubstr("/proc/none"));
  testing::WriteFile(dir_.File("bad.jsonl"), "{\"ids\": [3, 4, 5]}\n{\"ids\": [3, 4, 99999]}\n");
  const std::string bad_line = absl::StrCat("corpus.sources=[{jsonl: ", dir_.File("bad.jsonl"), "}]");
  EXPECT_THAT(fails(good, {"--set", bad_line}, 1), HasSubstr("bad.jsonl:2: ids[2]"));
  EXPECT_THAT(fails(good, {"--set", bad_line, "--check"}, 1), HasSubstr("bad.jsonl:2: ids[2]"));
  EXPECT_FALSE(fs::exists(dir_.File("run/bundle")));
}

TEST_F(CalibrateBinaryTest, ItNeverReplacesAFolderThatIsNoBundle) {
  const std::string config = Config("run", "patch: {layers: []}\n");
  fs::create_directories(dir_.File("run/bundle"));
  testing::WriteFile(dir_.File("run/bundle/thesis.txt"), "mine");
  Process run = Start("run", config);
  EXPECT_EQ(run.Wait(), 1) << run.Log();
  EXPECT_THAT(run.Log(), HasSubstr(dir_.File("run/bundle")));
  EXPECT_EQ(testing::ReadFile(dir_.File("run/bundle/thesis.txt")), "mine");
}

// The most private memory of a run, MiB. Mapped files do not count: the kernel takes their pages back when it
// likes.
std::int64_t PeakPrivateMib(Process& process) {
  std::int64_t peak_kib = 0;
  while (process.Running()) {
    std::istringstream status(testing::ReadFile(absl::StrCat("/proc/", process.pid(), "/status")));
    for (std::string line; std::getline(status, line);) {
      std::int64_t kib = 0;
      if (line.rfind("RssAnon:", 0) == 0 &&
          absl::SimpleAtoi(absl::StripAsciiWhitespace(line.substr(8, line.size() - 10)), &kib)) {
        peak_kib = std::max(peak_kib, kib);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return peak_kib / 1024;
}

TEST_F(CalibrateBinaryTest, MemoryDoesNotGrowWithTheCorpus) {
  const std::string more = "patch: {layers: [1], candidates: [0, 1, 2, 3]}\nkeep_work: true\n";
  const auto peak = [&](const std::string& name, std::int64_t prefixes) {
    WriteCorpus(prefixes, 240);
    Process run = Start(name, Config(name, more),
                        {"--set", "trace.pass_tokens=512", "--set", "aligner.max_epochs=1", "--set",
                         "ranks.h=[24]", "--set", "corpus.max_prefixes=1000"});
    const std::int64_t mib = PeakPrivateMib(run);
    EXPECT_EQ(run.Wait(), 0) << run.Log();
    return mib;
  };
  const std::int64_t small = peak("small", 40);
  const std::int64_t large = peak("large", 800);
  constexpr std::int64_t kMib = 1 << 20;
  const auto scratch = static_cast<std::int64_t>(fs::file_size(dir_.File("large/work/rows.scratch")));
  EXPECT_GT(scratch, 180 * kMib);
  EXPECT_GT(small, 1);
  EXPECT_LT(large, small + 24) << "small corpus: " << small << " MiB";
}

}  // namespace
}  // namespace scd
