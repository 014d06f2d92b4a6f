// What a faster place knew goes to the server that others look at too.
#include <csignal>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/store/disk_code_store.h"
#include "common/store/memory_code_store.h"
#include "common/store/redis_code_store.h"
#include "common/store/tiered_code_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/store/block_samples.h"
#include "tests/common/store/redis_options.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"

namespace scd::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class RedisOfferTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasRedisServer()) GTEST_SKIP() << kNoRedisServer;
    auto started = RedisServerProcess::Start({}, "");
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    for (std::uint64_t i = 0; i < 6; ++i) chain_.push_back(NumberedName(i));
  }
  std::unique_ptr<DiskCodeStore> Disk() {
    DiskCodeStoreOptions options;
    options.path = dir_.File("codes");
    options.capacity_bytes = 1 << 20;
    auto disk = DiskCodeStore::Create(options);
    EXPECT_TRUE(disk.ok()) << disk.status();
    return *std::move(disk);
  }

  TempDir dir_;
  Warnings warnings_;
  std::unique_ptr<RedisServerProcess> server_;
  std::vector<Digest> chain_;
};

TEST_F(RedisOfferTest, WhatARestartedProducersDiskServesOthersFind) {
  const absl::Time created = absl::FromUnixMillis(absl::ToUnixMillis(absl::Now()));
  {
    const auto disk = Disk();
    for (std::size_t i = 0; i < chain_.size(); ++i) {
      disk->Insert(absl::MakeConstSpan(chain_).first(i + 1), NumberedBlock(i, created));
    }
  }
  auto owned = RedisCodeStore::Create(Options(server_->tcp(), warnings_));
  RedisCodeStore& redis = *owned;
  std::vector<std::unique_ptr<CodeStore>> tiers;
  tiers.push_back(std::make_unique<MemoryCodeStore>(1 << 20));
  tiers.push_back(Disk());
  tiers.push_back(std::move(owned));
  TieredCodeStore store(std::move(tiers));
  EXPECT_EQ(redis.CountPrefix(chain_), 0);
  EXPECT_THAT(store.FindAtOnce(absl::MakeConstSpan(chain_).first(2), 0), SizeIs(2));
  redis.Flush();
  EXPECT_EQ(redis.CountPrefix(chain_), 2);
  EXPECT_THAT(store.FindPrefix(chain_), SizeIs(6));
  redis.Flush();
  const auto reader = RedisCodeStore::Create(Options(server_->tcp(), warnings_));
  const auto blocks = reader->FindPrefix(chain_);
  ASSERT_THAT(blocks, SizeIs(6));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(SameBlock(*blocks[i], *NumberedBlock(i, created))) << i;

  // From memory it goes nowhere: a hit there costs the server nothing.
  server_->Command({"FLUSHALL"});
  EXPECT_THAT(store.FindPrefix(chain_), SizeIs(6));
  redis.Flush();
  EXPECT_EQ(redis.CountPrefix(chain_), 0);
}

TEST_F(RedisOfferTest, WhatIsOfferedLeavesHalfOfTheQueueToWhatIsNew) {
  RedisCodeStoreOptions options = Options(server_->tcp(), warnings_);
  options.max_queued_bytes = 100'000;
  const auto store = RedisCodeStore::Create(std::move(options));
  server_->Signal(SIGSTOP);  // the server is up, as far as anyone can tell
  const auto insert = [&](int i) {
    const Digest key = NumberedName(static_cast<std::uint64_t>(i));
    store->Insert(absl::MakeConstSpan(&key, 1), FilledBlock(9'000, 'x', absl::Now()));
  };
  for (int i = 0; i < 20; ++i) {
    const Digest key = NumberedName(static_cast<std::uint64_t>(i));
    store->Offer(absl::MakeConstSpan(&key, 1), FilledBlock(9'000, 'x', absl::Now()));
  }
  EXPECT_EQ(store->stats()[0].queue_drops, 0);
  for (int i = 20; i < 26; ++i) insert(i);
  EXPECT_EQ(store->stats()[0].queue_drops, 0);
  EXPECT_THAT(warnings_.texts(), IsEmpty());
  server_->Signal(SIGCONT);
  store->Flush();
  EXPECT_EQ(server_->Command({"DBSIZE"}).integer, 5 + 6);
}

TEST_F(RedisOfferTest, ToAServerThatIsAwayNothingIsOffered) {
  server_->Kill();
  const auto store = RedisCodeStore::Create(Options(server_->tcp(), warnings_));
  store->Offer(chain_, NumberedBlock(5, absl::Now()));
  ASSERT_TRUE(server_->Restart().ok());
  while (!store->up()) absl::SleepFor(absl::Milliseconds(5));
  store->Flush();
  EXPECT_EQ(server_->Command({"DBSIZE"}).integer, 0);
}

}  // namespace
}  // namespace scd::testing
