#include "common/io/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::HasSubstr;

TEST(MappedFileTest, ShowsTheBytesOfAFile) {
  testing::TempDir dir;
  testing::WriteFile(dir.File("a"), std::string("ab\0c", 4));
  const auto file = MappedFile::Open(dir.File("a"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->text(), absl::string_view("ab\0c", 4));
  EXPECT_EQ((*file)->size(), 4U);
  EXPECT_EQ((*file)->path(), dir.File("a"));
}

TEST(MappedFileTest, AnEmptyFileIsAnEmptySpan) {
  testing::TempDir dir;
  testing::WriteFile(dir.File("a"), "");
  const auto file = MappedFile::Open(dir.File("a"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->bytes().empty());
}

TEST(MappedFileTest, NamesWhatCannotBeOpened) {
  testing::TempDir dir;
  const auto missing = MappedFile::Open(dir.File("nowhere")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr(dir.File("nowhere")));

  const auto folder = MappedFile::Open(dir.path()).status();
  EXPECT_EQ(folder.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(folder.message()), HasSubstr("not a regular file"));

  EXPECT_EQ(MappedFile::Open("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MappedFileTest, ANamedPipeIsRefusedWithoutWaiting) {
  testing::TempDir dir;
  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(dir.File("pipe")).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MappedFileTest, LoadFindsPartsThatAreGone) {
  testing::TempDir dir;
  const std::string path = dir.File("cut");
  testing::WriteFile(path, std::string(100'000, 'x'));
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Load().ok());
#ifdef MADV_POPULATE_READ
  void* const page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  const bool kernel_can_tell = madvise(page, 4096, MADV_POPULATE_READ) == 0;
  munmap(page, 4096);
  if (!kernel_can_tell) GTEST_SKIP() << "the kernel has no MADV_POPULATE_READ";
  ASSERT_EQ(truncate(path.c_str(), 5000), 0);
  EXPECT_EQ((*file)->Load().code(), absl::StatusCode::kDataLoss);
#else
  GTEST_SKIP() << "built without MADV_POPULATE_READ";
#endif
}

}  // namespace
}  // namespace scd
