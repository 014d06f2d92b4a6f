#include "calibrate/work_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "calibrate/file_io.h"
#include "calibrate/mapped_rows.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::HasSubstr;

Digest MakeDigest(const std::string& text) {
  return DigestBuilder("test").AddString(text).Finish();
}

WorkRecord MakeRecord() {
  return {.integers = {1, -2}, .numbers = {0.5}, .values = {1.5f, 2.5f, 3.5f}};
}

TEST(WorkFolderTest, RecordsComeBackForTheSameInputsOnly) {
  const testing::TempDir dir;
  const auto work = WorkFolder::Open(dir.File("a/b")).value();
  ASSERT_TRUE(work->Write("x", MakeDigest("in"), MakeRecord()).ok());
  const WorkRecord back = work->Read("x", MakeDigest("in")).value();
  EXPECT_EQ(back.integers, MakeRecord().integers);
  EXPECT_EQ(back.numbers, MakeRecord().numbers);
  EXPECT_EQ(back.values, MakeRecord().values);
  EXPECT_TRUE(absl::IsNotFound(work->Read("x", MakeDigest("other")).status()));
  EXPECT_TRUE(absl::IsNotFound(work->Read("y", MakeDigest("in")).status()));
  ASSERT_TRUE(work->Write("x", MakeDigest("in"), WorkRecord{}).ok());
  EXPECT_TRUE(work->Read("x", MakeDigest("in"))->integers.empty());
}

TEST(WorkFolderTest, ADamagedRecordIsNone) {
  const testing::TempDir dir;
  const auto work = WorkFolder::Open(dir.path()).value();
  ASSERT_TRUE(work->Write("x", MakeDigest("in"), MakeRecord()).ok());
  const std::string path = work->File("x.record");
  const std::string good = testing::ReadFile(path);
  for (std::size_t size = 0; size < good.size(); ++size) {
    testing::WriteFile(path, good.substr(0, size));
    EXPECT_FALSE(work->Read("x", MakeDigest("in")).ok()) << size;
  }
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    testing::WriteFile(path, bad);
    EXPECT_FALSE(work->Read("x", MakeDigest("in")).ok()) << i;
  }
  testing::WriteFile(path, good);
  EXPECT_TRUE(work->Read("x", MakeDigest("in")).ok());
}

TEST(WorkFolderTest, OneRunAtATime) {
  const testing::TempDir dir;
  auto first = WorkFolder::Open(dir.path()).value();
  const auto second = WorkFolder::Open(dir.path());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.status().message(), HasSubstr("another calibration"));
  first.reset();
  EXPECT_TRUE(WorkFolder::Open(dir.path()).ok());
}

TEST(WorkFolderTest, ClearRemovesWhatRunsKeepAndNothingElse) {
  const testing::TempDir dir;
  const std::string path = dir.File("work");
  auto work = WorkFolder::Open(path).value();
  ASSERT_TRUE(work->Write("x", MakeDigest("in"), MakeRecord()).ok());
  testing::WriteFile(work->File("rows.scratch"), "rows");
  std::filesystem::create_directory(work->File("draft"));
  testing::WriteFile(work->File("notes.txt"), "mine");
  work->Clear();
  EXPECT_FALSE(std::filesystem::exists(work->File("x.record")));
  EXPECT_FALSE(std::filesystem::exists(work->File("rows.scratch")));
  EXPECT_FALSE(std::filesystem::exists(work->File("draft")));
  EXPECT_TRUE(std::filesystem::exists(work->File("notes.txt")));
  std::filesystem::remove(work->File("notes.txt"));
  work->Clear();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(WorkFolderTest, UnwritablePathsAndTooLittleSpaceAreNamed) {
  const testing::TempDir dir;
  testing::WriteFile(dir.File("file"), "");
  const auto opened = WorkFolder::Open(dir.File("file/work"));
  EXPECT_THAT(opened.status().message(), HasSubstr(dir.File("file/work")));
  const auto work = WorkFolder::Open(dir.path()).value();
  EXPECT_TRUE(work->CheckSpace(1).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(work->CheckSpace(std::uint64_t{1} << 60)));
}

TEST(FileIoTest, AFullDiskIsToldAsSuch) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  errno = ENOSPC;
  const absl::Status status = FileError("/x/y", "cannot write");
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(status.message(), HasSubstr("/x/y: cannot write: the disk is full"));
}

TEST(FileIoTest, FilesGrowAreCutAndRead) {
  const testing::TempDir dir;
  const std::byte bytes[] = {std::byte{1}, std::byte{2}, std::byte{3}};
  {
    const auto file = OutputFile::Open(dir.File("f"), 0).value();
    ASSERT_TRUE(file->Append(bytes).ok());
    ASSERT_TRUE(file->Append(bytes).ok());
    EXPECT_EQ(file->size(), 6);
  }
  const auto file = OutputFile::Open(dir.File("f"), 4).value();
  std::byte out[2];
  ASSERT_TRUE(file->Read(2, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out[0], std::byte{3});
  EXPECT_EQ(out[1], std::byte{1});
  EXPECT_TRUE(absl::IsDataLoss(file->Read(3, absl::MakeSpan(out))));
  EXPECT_TRUE(absl::IsDataLoss(OutputFile::Open(dir.File("f"), 5).status()));
  EXPECT_TRUE(absl::IsNotFound(OutputFile::Open(dir.File("none/f"), 0).status()));
}

TEST(MappedRowsTest, RowsAreZeroWritableAndLeaveNoFile) {
  const testing::TempDir dir;
  const auto rows = MappedRows::Create(dir.path(), 3, 5).value();
  EXPECT_EQ(rows->view().row<float>(2)[4], 0.0f);
  rows->view().row<float>(2)[4] = 7.0f;
  EXPECT_EQ(rows->view().as<float>()[14], 7.0f);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  EXPECT_EQ(MappedRows::Create(dir.path(), 0, 5).value()->view().num_elements(), 0);
  EXPECT_FALSE(MappedRows::Create(dir.File("none"), 3, 5).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(MappedRows::Create(dir.path(), std::int64_t{1} << 50, 1).status()));
}

}  // namespace
}  // namespace scd
