#include "common/trace/trace_folder.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> FilesOf(const std::string& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class TraceFolderTest : public ::testing::Test {
 protected:
  std::unique_ptr<TraceFolder> Open(std::int64_t max_files = 100, const std::string& side = "producer") {
    auto folder = TraceFolder::Create({.dir = dir_.path(), .max_files = max_files},
                                      {.program = "scd-" + side, .side = side, .process_id = 1},
                                      [this](const std::string& text) { failures_.push_back(text); });
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *std::move(folder);
  }

  testing::TempDir dir_;
  std::vector<std::string> failures_;  // of the writer's thread; to be read when the folder is closed
};

TEST_F(TraceFolderTest, ATraceIsWrittenWhenItsLastOwnerLetsGo) {
  auto folder = Open();
  std::shared_ptr<RequestTrace> trace = BeginTrace(folder.get(), "r-1");
  std::shared_ptr<RequestTrace> second = trace;
  trace->AddMoment(TraceTrack::kRequest, "first token");
  trace->End("ok");
  trace.reset();
  EXPECT_THAT(FilesOf(dir_.path()), IsEmpty());
  second->AddMoment(TraceTrack::kRequest, "late");
  second.reset();
  folder.reset();
  ASSERT_THAT(FilesOf(dir_.path()), ElementsAre("r-1.producer.000001.json"));
  const auto json = nlohmann::json::parse(testing::ReadFile(dir_.File("r-1.producer.000001.json")));
  EXPECT_EQ(json.at("otherData").at("outcome"), "ok");
  EXPECT_THAT(json.dump(), HasSubstr("late"));
}

TEST_F(TraceFolderTest, WithoutAFolderThereIsNoTrace) {
  EXPECT_EQ(BeginTrace(nullptr, "r"), nullptr);
}

TEST_F(TraceFolderTest, KeepsTheYoungestFilesOfItsSideOnly) {
  testing::WriteFile(dir_.File("notes.json"), "mine");
  testing::WriteFile(dir_.File("a.consumer.000001.json"), "the other side's");
  {
    auto folder = Open(3);
    for (int i = 0; i < 8; ++i) folder->Begin(absl::StrCat("r", i));
  }
  EXPECT_THAT(FilesOf(dir_.path()),
              ElementsAre("a.consumer.000001.json", "notes.json", "r5.producer.000006.json",
                          "r6.producer.000007.json", "r7.producer.000008.json"));
  // A restart goes on behind them, and counts them.
  Open(3)->Begin("again");
  EXPECT_THAT(FilesOf(dir_.path()),
              ElementsAre("a.consumer.000001.json", "again.producer.000009.json", "notes.json",
                          "r6.producer.000007.json", "r7.producer.000008.json"));
  Open(1);
  EXPECT_THAT(FilesOf(dir_.path()),
              ElementsAre("a.consumer.000001.json", "again.producer.000009.json", "notes.json"));
}

TEST_F(TraceFolderTest, PartsOfACrashAreOldFilesToo) {
  testing::WriteFile(dir_.File("x.producer.000004.json.part"), "{");
  Open(1)->Begin("r");
  EXPECT_THAT(FilesOf(dir_.path()), ElementsAre("r.producer.000005.json"));
}

TEST_F(TraceFolderTest, TwoDaemonsOfOneSideTakeNoNameTwice) {
  auto first = Open();
  auto second = Open();
  for (int i = 0; i < 5; ++i) {
    first->Begin("same");
    second->Begin("same");
  }
  first.reset();
  second.reset();
  EXPECT_EQ(FilesOf(dir_.path()).size(), 10u);
}

TEST_F(TraceFolderTest, HostileIdsStayInTheFolder) {
  {
    auto folder = Open();
    for (const std::string& id : {std::string("../../x"), std::string("/tmp/x"), std::string(100'000, 'l'),
                                  std::string("\xff\0\n", 3), std::string()}) {
      folder->Begin(id);
    }
  }
  EXPECT_EQ(FilesOf(dir_.path()).size(), 5u);
  EXPECT_TRUE(failures_.empty());
}

TEST_F(TraceFolderTest, FailuresAreCountedAndLoggedOnce) {
  auto folder = Open();
  std::filesystem::remove_all(dir_.path());
  for (int i = 0; i < 4; ++i) folder->Begin("r");
  while (folder->stats().lost < 4) std::this_thread::yield();
  EXPECT_EQ(folder->stats().written, 0);
  // It goes on when the folder is there again.
  std::filesystem::create_directory(dir_.path());
  folder->Begin("back");
  folder.reset();
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_THAT(failures_[0], HasSubstr(dir_.path()));
  EXPECT_EQ(FilesOf(dir_.path()).size(), 1u);
}

TEST_F(TraceFolderTest, TooManyAtOnceHaveNone) {
  auto folder = Open();
  std::vector<std::shared_ptr<RequestTrace>> traces;
  for (std::int64_t i = 0; i < TraceFolder::kMaxUnwritten; ++i) {
    traces.push_back(folder->Begin("r"));
    ASSERT_NE(traces.back(), nullptr);
  }
  EXPECT_EQ(folder->Begin("r"), nullptr);
  EXPECT_EQ(folder->stats().lost, 1);
  traces.clear();
  while (folder->stats().written < TraceFolder::kMaxUnwritten) std::this_thread::yield();
  EXPECT_NE(folder->Begin("r"), nullptr);
}

TEST_F(TraceFolderTest, TheFolderIsChecked) {
  EXPECT_TRUE(CheckTraceFolder(dir_.path()).ok());
  EXPECT_THAT(FilesOf(dir_.path()), IsEmpty());
  EXPECT_THAT(CheckTraceFolder(dir_.File("missing")).message(), HasSubstr(dir_.File("missing")));
  testing::WriteFile(dir_.File("file"), "");
  EXPECT_THAT(CheckTraceFolder(dir_.File("file")).message(), HasSubstr("is not a folder"));
  // procfs takes no files, from root either.
  EXPECT_THAT(CheckTraceFolder("/proc").message(), HasSubstr("trace.dir: /proc"));
  EXPECT_FALSE(TraceFolder::Create({.dir = dir_.File("missing")}, {}, {}).ok());
}

}  // namespace
}  // namespace scd
