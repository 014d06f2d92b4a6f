#include "common/store/disk_code_store.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/store/block_record.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/store/block_samples.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using testing::FilledBlock;
using testing::Find;
using testing::Name;
using testing::NumberedBlock;
using testing::NumberedName;
using testing::ReadFile;
using testing::SameBlock;
using testing::TempDir;
using testing::WriteFile;

class DiskCodeStoreTest : public ::testing::Test {
 protected:
  DiskCodeStoreOptions Options() {
    DiskCodeStoreOptions options;
    options.path = dir_.File("codes");
    options.capacity_bytes = 1 << 24;
    options.now = [this] { return absl::FromUnixMillis(now_ms_.load()); };
    options.warn = [this](const std::string& line) {
      const absl::MutexLock lock(&mutex_);
      warnings_ += line + "\n";
    };
    return options;
  }
  void Open(DiskCodeStoreOptions options) {
    store_.reset();
    auto store = DiskCodeStore::Create(std::move(options));
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void Open() { Open(Options()); }
  // A chain of one.
  void Insert(const Digest& key, std::shared_ptr<const CodeBlock> block) {
    store_->Insert(absl::MakeConstSpan(&key, 1), std::move(block));
  }
  CodeStoreStats stats() { return store_->stats().at(0); }
  absl::Time now() { return absl::FromUnixMillis(now_ms_.load()); }
  void Pass(absl::Duration time) { now_ms_ += absl::ToInt64Milliseconds(time); }
  std::string warnings() {
    const absl::MutexLock lock(&mutex_);
    return warnings_;
  }
  std::string PathOf(const Digest& key) {
    return dir_.File("codes/" + key.ToHex().substr(0, 2) + "/" + key.ToHex() + ".block");
  }
  bool Exists(const std::string& path) { return std::filesystem::exists(path); }

  TempDir dir_;
  std::atomic<std::int64_t> now_ms_ = 1'800'000'000'000;
  absl::Mutex mutex_;
  std::string warnings_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<DiskCodeStore> store_;
};

TEST_F(DiskCodeStoreTest, GivesWhatWasInsertedAtOnceAndFromItsFile) {
  Open();
  for (std::uint64_t i = 0; i < 20; ++i) Insert(NumberedName(i), NumberedBlock(i, now()));
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 0; i < 20; ++i) {
      const auto block = Find(*store_, NumberedName(i));
      ASSERT_NE(block, nullptr) << i;
      EXPECT_TRUE(SameBlock(*block, *NumberedBlock(i, now())));
    }
    store_->Flush();
  }
  EXPECT_EQ(Find(*store_, Name("other")), nullptr);
  EXPECT_EQ(stats().tier, "disk");
  EXPECT_EQ(stats().num_blocks, 20);
  EXPECT_EQ(stats().hits, 40);
  EXPECT_EQ(stats().misses, 1);
  EXPECT_EQ(warnings(), "");
  EXPECT_TRUE(Exists(PathOf(NumberedName(3))));
  struct stat info {};
  ASSERT_EQ(stat(PathOf(NumberedName(3)).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(DiskCodeStoreTest, KeepsBlocksOverARestart) {
  Open();
  const std::vector<Digest> chain = {NumberedName(0), NumberedName(1), NumberedName(2)};
  for (std::size_t i = 0; i < 3; ++i) {
    store_->Insert(absl::MakeConstSpan(chain).first(i + 1), NumberedBlock(i, now()));
  }
  store_->Flush();
  const CodeStoreStats before = stats();
  Open();
  EXPECT_EQ(stats().num_blocks, before.num_blocks);
  EXPECT_EQ(stats().size_bytes, before.size_bytes);
  const auto blocks = store_->FindPrefix(chain);
  ASSERT_EQ(blocks.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(SameBlock(*blocks[i], *NumberedBlock(i, now())));
  // What is held outlives its file and the store.
  std::filesystem::remove_all(dir_.File("codes"));
  store_.reset();
  EXPECT_TRUE(SameBlock(*blocks[2], *NumberedBlock(2, now())));
}

TEST_F(DiskCodeStoreTest, AnOrderlyEndWritesWhatWaits) {
  Open();
  for (std::uint64_t i = 0; i < 200; ++i) Insert(NumberedName(i), NumberedBlock(i, now()));
  Open();
  EXPECT_EQ(stats().num_blocks, 200);
}

TEST_F(DiskCodeStoreTest, AnEndThatMayTakeNoTimeSaysWhatItLost) {
  DiskCodeStoreOptions options = Options();
  options.close_timeout = absl::ZeroDuration();
  options.capacity_bytes = 1 << 28;
  Open(options);
  for (std::uint64_t i = 0; i < 200; ++i) Insert(NumberedName(i), FilledBlock(300'000, 'x', now()));
  Open();
  EXPECT_LT(stats().num_blocks, 200);
  EXPECT_THAT(warnings(),
              HasSubstr(std::to_string(200 - stats().num_blocks) + " blocks were not written within"));
}

TEST_F(DiskCodeStoreTest, TheOrderOfUseSurvivesARestart) {
  DiskCodeStoreOptions options = Options();
  options.capacity_bytes = 4 * 4096;
  Open(options);
  for (const char* name : {"a", "b", "c", "d"}) Insert(Name(name), FilledBlock(1000, 'x', now()));
  store_->Flush();
  EXPECT_NE(Find(*store_, Name("a")), nullptr);
  Open(options);
  Insert(Name("e"), FilledBlock(1000, 'x', now()));
  store_->Flush();
  EXPECT_EQ(stats().evicted, 1);
  EXPECT_EQ(stats().size_bytes, 4 * 4096);
  EXPECT_EQ(Find(*store_, Name("b")), nullptr);
  EXPECT_FALSE(Exists(PathOf(Name("b"))));
  for (const char* name : {"a", "c", "d", "e"}) EXPECT_NE(Find(*store_, Name(name)), nullptr) << name;
}

TEST_F(DiskCodeStoreTest, EndsOfAChainGoFirstAlsoAfterARestart) {
  DiskCodeStoreOptions options = Options();
  options.capacity_bytes = 4 * 4096;
  Open(options);
  const std::vector<Digest> chain = {Name("1"), Name("2"), Name("3"), Name("4")};
  for (std::size_t i = 1; i <= chain.size(); ++i) {
    store_->Insert(absl::MakeConstSpan(chain).first(i), FilledBlock(100, 'x', now()));
  }
  Open(options);
  Insert(Name("other"), FilledBlock(100, 'x', now()));
  EXPECT_EQ(store_->FindPrefix(chain).size(), 3u);
}

TEST_F(DiskCodeStoreTest, ASmallerBudgetDropsTheOldestAtTheStart) {
  Open();
  for (const char* name : {"a", "b", "c", "d"}) Insert(Name(name), FilledBlock(1000, 'x', now()));
  DiskCodeStoreOptions options = Options();
  options.capacity_bytes = 2 * 4096;
  Open(options);
  store_->Flush();
  EXPECT_EQ(stats().num_blocks, 2);
  EXPECT_FALSE(Exists(PathOf(Name("b"))));
  EXPECT_NE(Find(*store_, Name("d")), nullptr);
  Insert(Name("larger than all"), FilledBlock(3 * 4096, 'x', now()));
  EXPECT_EQ(stats().num_blocks, 2);
}

TEST_F(DiskCodeStoreTest, BlocksExpireByTheTimeTheirCodesWereMade) {
  DiskCodeStoreOptions options = Options();
  options.ttl = absl::Hours(1);
  Open(options);
  Insert(Name("a"), FilledBlock(100, 'a', now()));
  Insert(Name("too old"), FilledBlock(100, 'b', now() - absl::Hours(2)));
  store_->Flush();
  EXPECT_EQ(stats().num_blocks, 1);
  Pass(absl::Minutes(40));
  Insert(Name("b"), FilledBlock(100, 'b', now()));
  EXPECT_NE(Find(*store_, Name("a")), nullptr);  // use does not lengthen its life
  store_->Flush();
  Pass(absl::Minutes(21));
  EXPECT_EQ(Find(*store_, Name("a")), nullptr);
  EXPECT_EQ(stats().dropped_expired, 1);
  store_->Flush();
  EXPECT_FALSE(Exists(PathOf(Name("a"))));
  EXPECT_NE(Find(*store_, Name("b")), nullptr);
  // Nobody asks: it goes all the same, at a start too.
  store_.reset();
  Pass(absl::Hours(1));
  Open(options);
  store_->Flush();
  EXPECT_EQ(stats().num_blocks, 0);
  EXPECT_EQ(stats().dropped_expired, 1);
  EXPECT_FALSE(Exists(PathOf(Name("b"))));
  EXPECT_EQ(warnings(), "");
}

// A copied folder has new times of files; records have their own.
TEST_F(DiskCodeStoreTest, AnExpiredRecordInAFreshFileIsNotGiven) {
  DiskCodeStoreOptions options = Options();
  options.ttl = absl::Hours(1);
  Open(options);
  Insert(Name("a"), FilledBlock(100, 'a', now()));
  store_.reset();
  Pass(absl::Hours(2));
  WriteFile(PathOf(Name("a")), ReadFile(PathOf(Name("a"))));
  const timespec fresh = absl::ToTimespec(now());
  const timespec times[] = {fresh, fresh};
  ASSERT_EQ(utimensat(AT_FDCWD, PathOf(Name("a")).c_str(), times, 0), 0);
  Open(options);
  EXPECT_EQ(Find(*store_, Name("a")), nullptr);
  EXPECT_EQ(stats().dropped_expired, 1);
}

TEST_F(DiskCodeStoreTest, DamagedAndForeignFilesAreRemovedCountedAndNeverGiven) {
  Open();
  for (const char* name : {"good", "flipped", "short", "empty", "foreign", "version"}) {
    Insert(Name(name), NumberedBlock(7, now()));
  }
  store_.reset();
  std::string flipped = ReadFile(PathOf(Name("flipped")));
  flipped[flipped.size() / 2] ^= 4;
  WriteFile(PathOf(Name("flipped")), flipped);
  const std::string whole = ReadFile(PathOf(Name("short")));
  WriteFile(PathOf(Name("short")), whole.substr(0, whole.size() / 2));
  WriteFile(PathOf(Name("empty")), "");
  WriteFile(PathOf(Name("foreign")), ReadFile(PathOf(Name("good"))));
  std::string version = ReadFile(PathOf(Name("version")));
  version[8] = 9;
  WriteFile(PathOf(Name("version")), version);
  Open();
  EXPECT_EQ(stats().num_blocks, 6);
  std::int64_t dropped = 0;
  for (const char* name : {"flipped", "short", "empty", "foreign", "version"}) {
    EXPECT_EQ(Find(*store_, Name(name)), nullptr) << name;
    EXPECT_EQ(stats().dropped_corrupt, ++dropped);
    EXPECT_EQ(Find(*store_, Name(name)), nullptr);  // gone now, and not counted again
    EXPECT_EQ(stats().dropped_corrupt, dropped);
    store_->Flush();
    EXPECT_FALSE(Exists(PathOf(Name(name)))) << name;
  }
  EXPECT_THAT(warnings(), AllOf(HasSubstr(PathOf(Name("flipped"))), HasSubstr("digest does not match")));
  EXPECT_NE(Find(*store_, Name("good")), nullptr);
  EXPECT_EQ(stats().num_blocks, 1);
  // It can be kept again.
  Insert(Name("flipped"), NumberedBlock(8, now()));
  store_->Flush();
  EXPECT_TRUE(SameBlock(*Find(*store_, Name("flipped")), *NumberedBlock(8, now())));
}

TEST_F(DiskCodeStoreTest, AStartRemovesWhatWritingLeftAndOnlyThat) {
  Open();
  Insert(Name("a"), NumberedBlock(1, now()));
  store_.reset();
  const std::string folder = PathOf(Name("a")).substr(0, PathOf(Name("a")).rfind('/'));
  const std::vector<std::string> leftovers = {dir_.File("codes/writing/0123.part"),
                                              dir_.File("codes/writing/x.part"), folder + "/nonsense.block",
                                              folder + "/" + std::string(32, '0') + ".block"};
  const std::vector<std::string> others = {dir_.File("codes/writing/notes.txt"), dir_.File("codes/readme"),
                                           folder + "/notes.txt", dir_.File("codes/x.block")};
  for (const std::string& path : leftovers) WriteFile(path, "x");
  for (const std::string& path : others) WriteFile(path, "x");
  std::filesystem::create_directory(folder + "/folder.block");
  std::filesystem::create_symlink(
      "/etc/passwd", folder + "/" + Name("a").ToHex().substr(0, 2) + std::string(30, 'f') + ".block");
  Open();
  for (const std::string& path : leftovers) EXPECT_FALSE(Exists(path)) << path;
  for (const std::string& path : others) EXPECT_TRUE(Exists(path)) << path;
  EXPECT_TRUE(Exists("/etc/passwd"));
  EXPECT_EQ(stats().dropped_corrupt, 3);  // two bad names and a link
  EXPECT_EQ(stats().num_blocks, 1);
}

TEST_F(DiskCodeStoreTest, AFolderHasOneOwner) {
  Open();
  const auto second = DiskCodeStore::Create(Options());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr(dir_.File("codes")), HasSubstr("pid " + std::to_string(getpid()))));
  EXPECT_TRUE(BlockFolder::Check(dir_.File("codes")).ok());
  Open();  // the first has ended
}

TEST_F(DiskCodeStoreTest, AFolderThatCannotBeUsedIsAnErrorAtTheStart) {
  WriteFile(dir_.File("file"), "x");
  for (const std::string& path : {dir_.File("file"), dir_.File("file/below")}) {
    DiskCodeStoreOptions options = Options();
    options.path = path;
    const auto store = DiskCodeStore::Create(options);
    EXPECT_FALSE(store.ok());
    EXPECT_THAT(std::string(store.status().message()), HasSubstr(path));
    EXPECT_THAT(std::string(BlockFolder::Check(path).message()), HasSubstr(path));
  }
  EXPECT_TRUE(BlockFolder::Check(dir_.File("not/there/yet")).ok());
  EXPECT_FALSE(Exists(dir_.File("not")));
}

TEST_F(DiskCodeStoreTest, BlocksThatCannotBeWrittenAreCountedAndForgotten) {
  Open();
  Insert(Name("a"), NumberedBlock(1, now()));
  store_->Flush();
  // As a full disk does: no file can grow beyond this.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit tight = before;
  tight.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  for (std::uint64_t i = 10; i < 15; ++i) Insert(NumberedName(i), NumberedBlock(i, now()));
  store_->Flush();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, old_handler);
  EXPECT_EQ(stats().write_failures, 5);
  EXPECT_EQ(stats().num_blocks, 1);
  EXPECT_EQ(Find(*store_, NumberedName(12)), nullptr);
  EXPECT_NE(Find(*store_, Name("a")), nullptr);
  EXPECT_THAT(warnings(), AllOf(HasSubstr(PathOf(NumberedName(10))), HasSubstr("cannot write"),
                                HasSubstr("blocks are not kept there")));
  EXPECT_TRUE(std::filesystem::is_empty(dir_.File("codes/writing")));
  // There is room again.
  Insert(NumberedName(12), NumberedBlock(12, now()));
  store_->Flush();
  EXPECT_EQ(stats().write_failures, 5);
  EXPECT_TRUE(Exists(PathOf(NumberedName(12))));
}

TEST_F(DiskCodeStoreTest, AFolderThatIsTakenAwayFailsNoRequest) {
  Open();
  Insert(Name("a"), NumberedBlock(1, now()));
  store_->Flush();
  std::filesystem::remove_all(dir_.File("codes"));
  EXPECT_EQ(Find(*store_, Name("a")), nullptr);
  EXPECT_EQ(stats().read_failures, 1);
  Insert(Name("b"), NumberedBlock(2, now()));
  store_->Flush();
  EXPECT_EQ(stats().write_failures, 1);
  EXPECT_EQ(stats().num_blocks, 0);
  EXPECT_THAT(warnings(), HasSubstr("cannot make the file"));
}

TEST_F(DiskCodeStoreTest, WhatWaitsIsBounded) {
  DiskCodeStoreOptions options = Options();
  options.max_queued_bytes = 2000;
  Open(options);
  Insert(Name("large"), FilledBlock(2001, 'x', now()));
  EXPECT_EQ(stats().queue_drops, 1);
  EXPECT_EQ(Find(*store_, Name("large")), nullptr);
  EXPECT_THAT(warnings(), HasSubstr("wait to be written"));
  for (std::uint64_t i = 0; i < 500; ++i) Insert(NumberedName(i), FilledBlock(1000, 'x', now()));
  store_->Flush();
  EXPECT_EQ(stats().num_blocks + stats().queue_drops, 501);
  EXPECT_GT(stats().num_blocks, 0);
}

TEST_F(DiskCodeStoreTest, ThreadsShareIt) {
  DiskCodeStoreOptions options = Options();
  options.capacity_bytes = 40 * 4096;  // far less than all blocks
  options.upkeep_interval = absl::Milliseconds(5);
  Open(options);
  constexpr std::uint64_t kBlocks = 60;
  std::atomic<int> num_wrong = 0;
  std::atomic<int> num_found = 0;
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::uint64_t state = t + 1;
      for (int i = 0; i < 1500; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const std::uint64_t number = (state >> 33) % kBlocks;
        const auto found = Find(*store_, NumberedName(number));
        if (found == nullptr) {
          Insert(NumberedName(number), NumberedBlock(number, now()));
        } else {
          ++num_found;
          if (!SameBlock(*found, *NumberedBlock(number, now()))) ++num_wrong;
        }
      }
    });
  }
  threads.clear();
  store_->Flush();
  EXPECT_EQ(num_wrong, 0);
  EXPECT_GT(num_found, 100);
  EXPECT_GT(stats().evicted, 100);
  EXPECT_EQ(stats().dropped_corrupt, 0);
  EXPECT_EQ(stats().read_failures, 0) << warnings();
  EXPECT_LE(stats().size_bytes, options.capacity_bytes);
  // Index and folder agree.
  const CodeStoreStats before = stats();
  Open(options);
  EXPECT_EQ(stats().num_blocks, before.num_blocks);
  EXPECT_EQ(stats().size_bytes, before.size_bytes);
}

}  // namespace
}  // namespace scd
