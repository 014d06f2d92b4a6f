// What the programs refuse at their start: soon, with one line that says why, and with an exit code.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/model_source.h"
#include "gtest/gtest.h"
#include "tests/e2e/daemon_pair.h"
#include "tests/e2e/e2e_paths.h"
#include "tests/support/daemon.h"
#include "tests/support/model_folder.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr double kSeconds = 2;
constexpr long kMib = 200;

// The program ended by itself, in time and with little memory, and its last words hold all of `expected`.
void ExpectRefused(const ProgramRun& run, int exit_code, const std::vector<std::string>& expected) {
  EXPECT_EQ(run.exit_code, exit_code) << run.output;
  EXPECT_LT(run.seconds, kSeconds);
  EXPECT_LT(run.max_resident_mib, kMib);
  for (const std::string& text : expected) {
    EXPECT_NE(run.output.find(text), std::string::npos) << "'" << text << "' is not in: " << run.output;
  }
  EXPECT_LE(std::count(run.output.begin(), run.output.end(), '\n'), 2) << run.output;
}

class BundleRefusalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto files = MakeTinyPair(dir_.path());
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *files;
  }

  // Both daemons refuse the bundle as it stands now, with these words and its path.
  void ExpectBothRefuse(std::vector<std::string> expected) {
    expected.push_back(files_.bundle);
    ExpectRefused(RunProgram("scd-consumer", ConsumerArguments(files_, "127.0.0.1:1"), absl::Seconds(20)),
                  kFailure, expected);
    ExpectRefused(RunProgram("scd-producer", ProducerArguments(files_), absl::Seconds(20)), kFailure,
                  expected);
  }

  // Writes the bundle again, for sides that are changed before.
  void WriteBundleFor(const std::function<void(BundleModel&)>& change) {
    const auto model = OpenModel({files_.producer_model, "", ""});
    ASSERT_TRUE(model.ok()) << model.status();
    BundleModel side{"tiny", model->digest, model->tokenizer->digest()};
    change(side);
    fs::remove_all(files_.bundle);
    ASSERT_TRUE(WriteTinyBundle(files_.bundle, model->config, side, side).ok());
  }

  TempDir dir_;
  PairFiles files_;
};

TEST_F(BundleRefusalTest, TheUnbrokenBundleIsTaken) {
  auto with_check = ConsumerArguments(files_, "127.0.0.1:1");
  with_check.push_back("--check");
  EXPECT_EQ(RunProgram("scd-consumer", with_check, absl::Seconds(20)).exit_code, 0);
  with_check = ProducerArguments(files_);
  with_check.push_back("--check");
  EXPECT_EQ(RunProgram("scd-producer", with_check, absl::Seconds(20)).exit_code, 0);
}

TEST_F(BundleRefusalTest, BundleOfAnotherModel) {
  WriteBundleFor([](BundleModel& side) { side.digest = MadeUpModel("another").digest; });
  ExpectBothRefuse({"fitted for another"});
}

TEST_F(BundleRefusalTest, BundleOfAnotherTokenizer) {
  WriteBundleFor([](BundleModel& side) { side.tokenizer_digest = MadeUpModel("another").tokenizer_digest; });
  ExpectBothRefuse({"tokenizer"});
}

TEST_F(BundleRefusalTest, ChangedByteOfATensor) {
  const std::string path = files_.bundle + "/tensors.safetensors";
  std::string bytes = ReadFile(path);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
  WriteFile(path, bytes);
  ExpectBothRefuse({"tensors.safetensors"});
}

TEST_F(BundleRefusalTest, TruncatedTensors) {
  const std::string path = files_.bundle + "/tensors.safetensors";
  const std::string bytes = ReadFile(path);
  for (const std::size_t size : {bytes.size() - 1, bytes.size() / 2, std::size_t{8}, std::size_t{0}}) {
    WriteFile(path, bytes.substr(0, size));
    ExpectBothRefuse({"tensors.safetensors"});
  }
}

TEST_F(BundleRefusalTest, TruncatedManifest) {
  const std::string path = files_.bundle + "/manifest.json";
  const std::string bytes = ReadFile(path);
  WriteFile(path, bytes.substr(0, bytes.size() / 2));
  ExpectBothRefuse({"manifest.json"});
}

TEST_F(BundleRefusalTest, MissingFiles) {
  fs::remove(files_.bundle + "/tensors.safetensors");
  ExpectBothRefuse({"tensors.safetensors"});
  fs::remove_all(files_.bundle);
  ExpectBothRefuse({});
}

TEST_F(BundleRefusalTest, PlanThatTheBundleCannotDo) {
  auto arguments = ConsumerArguments(files_, "127.0.0.1:1");
  arguments.insert(arguments.end(), {"--set", "plan.rank_v=17"});
  ExpectRefused(RunProgram("scd-consumer", arguments, absl::Seconds(20)), kFailure, {"plan.rank_v", "16"});
}

TEST(ConfigurationRefusalTest, HostileYaml) {
  SCD_SHARED_OR_SKIP(folder, "cases/yaml");
  int files = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    ++files;
    for (const char* program : {"scd-producer", "scd-consumer", "scd-calibrate"}) {
      SCOPED_TRACE(absl::StrCat(program, " ", file.path().string()));
      ExpectRefused(RunProgram(program, {"--config", file.path().string()}, absl::Seconds(20)), kUsage,
                    {file.path().string()});
    }
  }
  EXPECT_GE(files, 4);
}

TEST(ConfigurationRefusalTest, UnknownKeysComeWithLineAndSuggestion) {
  TempDir dir;
  const std::string path = dir.File("c.yaml");
  for (const char* program : {"scd-producer", "scd-consumer"}) {
    WriteFile(path, "model: {path: m}\nbundle: b\nbundles: [b]\nserver:\n  lisen: 127.0.0.1:0\n");
    SCOPED_TRACE(program);
    const ProgramRun run = RunProgram(program, {"--config", path}, absl::Seconds(20));
    EXPECT_EQ(run.exit_code, kUsage) << run.output;
    EXPECT_NE(run.output.find("c.yaml:"), std::string::npos) << run.output;
  }
  WriteFile(path, "model: {path: m}\nbundle: b\nserver:\n  lisen: 127.0.0.1:0\n");
  const ProgramRun run = RunProgram("scd-consumer", {"--config", path}, absl::Seconds(20));
  EXPECT_NE(run.output.find("c.yaml:4"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("listen"), std::string::npos) << run.output;
}

// A model file of the shared cases, in its place beside good neighbours.
struct ModelCase {
  std::string folder;  // under cases/
  std::string target;  // the file of a model folder that it stands for; empty: it is the model
};

void PrintTo(const ModelCase& c, std::ostream* os) {
  *os << c.folder;
}

class ModelRefusalTest : public ::testing::TestWithParam<ModelCase> {};

TEST_P(ModelRefusalTest, EveryProgramRefusesIt) {
  SCD_SHARED_OR_SKIP(folder, "cases/" + GetParam().folder);
  TempDir dir;
  const auto files = MakeTinyPair(dir.path());
  ASSERT_TRUE(files.ok()) << files.status();
  int count = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    ++count;
    SCOPED_TRACE(file.path().string());
    const ModelFolder model(files->consumer_model);
    std::string path = model.path();
    std::string named = GetParam().target;
    if (GetParam().target.empty()) {
      path = file.path().string();
      named = path;
    } else {
      WriteFile(model.File(GetParam().target), ReadFile(file.path().string()));
    }
    ExpectRefused(RunProgram("scd-consumer",
                             {"--config", ShippedConfig("consumer"), "--set", "model.path=" + path, "--set",
                              "model.adapter=\"\"", "--set", "bundle=\"\"", "--set", "mode=local"},
                             absl::Seconds(20)),
                  kFailure, {named});
    PairFiles producer = *files;
    producer.producer_model = path;
    ExpectRefused(RunProgram("scd-producer", ProducerArguments(producer), absl::Seconds(20)), kFailure,
                  {named});
  }
  EXPECT_GE(count, 4);
}

INSTANTIATE_TEST_SUITE_P(Cases, ModelRefusalTest,
                         ::testing::Values(ModelCase{"safetensors", "model.safetensors"},
                                           ModelCase{"gguf", ""}, ModelCase{"config", "config.json"},
                                           ModelCase{"tokenizer", "tokenizer.json"}),
                         [](const auto& info) { return info.param.folder; });

TEST(BundleTensorsRefusalTest, HostileSafetensors) {
  SCD_SHARED_OR_SKIP(folder, "cases/safetensors");
  TempDir dir;
  const auto files = MakeTinyPair(dir.path());
  ASSERT_TRUE(files.ok()) << files.status();
  for (const auto& file : fs::directory_iterator(folder)) {
    SCOPED_TRACE(file.path().string());
    WriteFile(files->bundle + "/tensors.safetensors", ReadFile(file.path().string()));
    ExpectRefused(RunProgram("scd-consumer", ConsumerArguments(*files, "127.0.0.1:1"), absl::Seconds(20)),
                  kFailure, {"tensors.safetensors"});
    ExpectRefused(RunProgram("scd-producer", ProducerArguments(*files), absl::Seconds(20)), kFailure,
                  {"tensors.safetensors"});
  }
}

}  // namespace
}  // namespace scd::testing
