#include "common/bundle/bundle_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "common/bundle/bundle.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

namespace fs = std::filesystem;
using testing::BundleTensorValues;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class BundleWriterTest : public ::testing::Test {
 protected:
  std::vector<std::string> Entries(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
      names.push_back(entry.path().filename().string());
    return names;
  }
  absl::StatusOr<Digest> Write(std::uint32_t seed) {
    return WriteBundle(folder_, manifest_, BundleTensorValues(manifest_, false, seed).Named());
  }

  const testing::TempDir dir_;
  const std::string folder_ = dir_.File("bundle");
  const BundleManifest manifest_ = testing::TinyManifest(testing::TinyConfig(), testing::MadeUpModel("base"),
                                                         testing::MadeUpModel("expert"));
};

TEST_F(BundleWriterTest, WritesTwoFilesAndNothingBeside) {
  const auto digest = Write(1);
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_THAT(Entries(dir_.path()), ElementsAre("bundle"));
  EXPECT_THAT(Entries(folder_), UnorderedElementsAre("manifest.json", "tensors.safetensors"));
  EXPECT_EQ((*Bundle::Open(folder_))->digest(), *digest);
}

TEST_F(BundleWriterTest, TheSameContentHasTheSameDigest) {
  const auto first = Write(1);
  const auto again = Write(1);
  const auto other = Write(2);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_NE(*first, *other);
}

TEST_F(BundleWriterTest, MakesParentsAndTakesATrailingSlash) {
  const std::string nested = dir_.File("a/b/bundle/");
  const auto digest = WriteBundle(nested, manifest_, BundleTensorValues(manifest_, false, 1).Named());
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_TRUE(Bundle::Open(nested).ok());
  EXPECT_THAT(Entries(dir_.File("a/b")), ElementsAre("bundle"));
}

TEST_F(BundleWriterTest, ReplacesABundleOrAnEmptyFolder) {
  fs::create_directory(folder_);
  ASSERT_TRUE(Write(1).ok());
  testing::WriteFile(folder_ + "/notes.txt", "of the first bundle");
  const auto second = Write(2);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*Bundle::Open(folder_))->digest(), *second);
  EXPECT_THAT(Entries(folder_), UnorderedElementsAre("manifest.json", "tensors.safetensors"));
  EXPECT_THAT(Entries(dir_.path()), ElementsAre("bundle"));
}

TEST_F(BundleWriterTest, ReaderOfTheOldBundleKeepsIt) {
  ASSERT_TRUE(Write(1).ok());
  const auto old = Bundle::Open(folder_);
  ASSERT_TRUE(old.ok());
  const float before = *(*old)->Reuse(0, CodeKind::kK, 1)->encoder.as<float>();
  ASSERT_TRUE(Write(2).ok());
  EXPECT_EQ(*(*old)->Reuse(0, CodeKind::kK, 1)->encoder.as<float>(), before);
  EXPECT_NE(*(*Bundle::Open(folder_))->Reuse(0, CodeKind::kK, 1)->encoder.as<float>(), before);
}

TEST_F(BundleWriterTest, WhatWouldNotOpenIsNotWritten) {
  const auto first = Write(1);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto expect = [&](const absl::Status& status, const std::string& message) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(Entries(dir_.path()), ElementsAre("bundle"));
    const auto still = Bundle::Open(folder_);
    ASSERT_TRUE(still.ok()) << still.status();
    EXPECT_EQ((*still)->digest(), *first);
  };
  BundleTensorValues values(manifest_, false, 2);
  values.tensors().erase("layers.0.k.decoder");
  expect(WriteBundle(folder_, manifest_, values.Named()).status(), "layers.0.k.decoder: no such tensor");
  BundleManifest manifest = manifest_;
  manifest.default_rank_h = 9;
  expect(WriteBundle(folder_, manifest, BundleTensorValues(manifest_, false, 2).Named()).status(),
         "plan: rank_h: 9 is not in fitted: ranks_h");
  manifest = manifest_;
  manifest.quality.kl_scd = std::nan("");
  expect(WriteBundle(folder_, manifest, BundleTensorValues(manifest_, false, 2).Named()).status(), "kl_scd");
}

TEST_F(BundleWriterTest, SomethingElseIsLeftAlone) {
  fs::create_directory(folder_);
  testing::WriteFile(folder_ + "/thesis.txt", "years of work");
  absl::Status status = Write(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + ": is there and is no bundle"));
  EXPECT_EQ(testing::ReadFile(folder_ + "/thesis.txt"), "years of work");
  EXPECT_THAT(Entries(dir_.path()), ElementsAre("bundle"));

  fs::remove_all(folder_);
  testing::WriteFile(folder_, "a file");
  status = Write(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(testing::ReadFile(folder_), "a file");
}

TEST_F(BundleWriterTest, NoFolderIsNoPlace) {
  const auto values = BundleTensorValues(manifest_, false, 1);
  for (const char* folder : {"", "/"}) {
    EXPECT_EQ(WriteBundle(folder, manifest_, values.Named()).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(BundleWriterTest, UnfinishedFoldersOfOthersDoNotMatter) {
  const std::string other = folder_ + ".partial-" + std::to_string(getpid()) + "-0";
  fs::create_directory(other);
  ASSERT_TRUE(Write(1).ok());
  EXPECT_TRUE(fs::exists(other));
}

}  // namespace
}  // namespace scd
