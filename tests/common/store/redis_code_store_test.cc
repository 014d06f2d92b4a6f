#include "common/store/redis_code_store.h"

#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/store/block_record.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/store/block_samples.h"
#include "tests/common/store/redis_options.h"
#include "tests/support/redis_server.h"

namespace scd::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::string KeyOf(const Digest& key) {
  return "scd:1:" + key.ToHex();
}

bool WaitUntil(const std::function<bool()>& done, absl::Duration timeout = absl::Seconds(20)) {
  for (const absl::Time end = absl::Now() + timeout; absl::Now() < end;) {
    if (done()) return true;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return done();
}

class RedisCodeStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasRedisServer()) GTEST_SKIP() << kNoRedisServer;
    Start({});
  }
  void Start(std::vector<std::string> settings, std::string password = "") {
    auto started = RedisServerProcess::Start(std::move(settings), std::move(password));
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }
  std::unique_ptr<RedisCodeStore> Store() {
    return RedisCodeStore::Create(Options(server_->tcp(), warnings_));
  }
  // Blocks are there, numbered from 0.
  std::vector<Digest> Fill(RedisCodeStore& store, std::uint64_t count, absl::Time created = absl::Now()) {
    std::vector<Digest> chain;
    for (std::uint64_t i = 0; i < count; ++i) {
      chain.push_back(NumberedName(i));
      store.Insert(chain, NumberedBlock(i, created));
    }
    store.Flush();
    return chain;
  }

  Warnings warnings_;
  std::unique_ptr<RedisServerProcess> server_;
};

TEST_F(RedisCodeStoreTest, WhatOneStoreWritesAnotherReads) {
  const auto writer = Store();
  const absl::Time created = absl::FromUnixMillis(absl::ToUnixMillis(absl::Now()));
  std::vector<Digest> chain = Fill(*writer, 20, created);
  const auto reader = RedisCodeStore::Create(Options(server_->unix_socket(), warnings_));
  EXPECT_EQ(reader->CountPrefix(chain), 20);
  const auto blocks = reader->FindPrefix(chain);
  ASSERT_THAT(blocks, SizeIs(20));
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_TRUE(SameBlock(*blocks[i], *NumberedBlock(i, created))) << i;
  // The row ends where a block is not there, whatever follows.
  std::vector<Digest> gap = chain;
  gap.insert(gap.begin() + 7, Name("unknown"));
  EXPECT_THAT(reader->FindPrefix(gap), SizeIs(7));
  EXPECT_EQ(reader->CountPrefix(gap), 7);
  EXPECT_THAT(reader->FindPrefix({}), IsEmpty());

  const CodeStoreStats stats = reader->stats()[0];
  EXPECT_EQ(stats.tier, "redis");
  EXPECT_EQ(stats.hits, 27);
  EXPECT_EQ(stats.misses, 14);
  EXPECT_EQ(stats.read_failures, 0);
  EXPECT_EQ(writer->stats()[0].write_failures, 0);
  EXPECT_THAT(warnings_.texts(), IsEmpty());
}

TEST_F(RedisCodeStoreTest, ALongRowIsReadInManyExchanges) {
  RedisCodeStoreOptions options = Options(server_->tcp(), warnings_);
  options.batch_bytes = 4096;
  const auto store = RedisCodeStore::Create(std::move(options));
  constexpr std::uint64_t kBlocks = 1500;  // more than one exchange of lengths has, and one block of many
  std::vector<Digest> chain;
  const absl::Time created = absl::FromUnixMillis(absl::ToUnixMillis(absl::Now()));
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    chain.push_back(NumberedName(i));
    store->Insert(chain, i == 700 ? FilledBlock(600'000, 'b', created) : NumberedBlock(i, created));
  }
  store->Flush();
  const auto blocks = store->FindPrefix(chain);
  ASSERT_THAT(blocks, SizeIs(kBlocks));
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    const auto expected = i == 700 ? FilledBlock(600'000, 'b', created) : NumberedBlock(i, created);
    ASSERT_TRUE(SameBlock(*blocks[i], *expected)) << i;
  }
}

TEST_F(RedisCodeStoreTest, BlocksExpireByTheAgeOfTheirCodes) {
  RedisCodeStoreOptions options = Options(server_->tcp(), warnings_);
  options.ttl = absl::Seconds(100);
  const auto store = RedisCodeStore::Create(options);
  const absl::Time now = absl::Now();
  const Digest young = Name("young");
  const Digest old = Name("old");
  const Digest too_old = Name("too old");
  store->Insert({young}, FilledBlock(10, 'y', now - absl::Seconds(40)));
  store->Insert({old}, FilledBlock(10, 'o', now - absl::Milliseconds(99'700)));
  store->Insert({too_old}, FilledBlock(10, 't', now - absl::Seconds(101)));
  store->Flush();
  const std::int64_t left = server_->Command({"PTTL", KeyOf(young)}).integer;
  EXPECT_GT(left, 50'000);
  EXPECT_LE(left, 60'000);
  EXPECT_EQ(server_->Command({"EXISTS", KeyOf(too_old)}).integer, 0);
  EXPECT_TRUE(WaitUntil([&] { return server_->Command({"EXISTS", KeyOf(old)}).integer == 0; }));
  EXPECT_EQ(Find(*store, old), nullptr);
  EXPECT_NE(Find(*store, young), nullptr);

  // A store that keeps them less long does not take them; they go where it could put others in their place.
  options.ttl = absl::Seconds(10);
  options.read_only = true;
  EXPECT_EQ(Find(*RedisCodeStore::Create(options), young), nullptr);
  EXPECT_EQ(server_->Command({"EXISTS", KeyOf(young)}).integer, 1);
  options.read_only = false;
  const auto strict = RedisCodeStore::Create(options);
  EXPECT_EQ(Find(*strict, young), nullptr);
  EXPECT_EQ(strict->stats()[0].dropped_expired, 1);
  EXPECT_EQ(server_->Command({"EXISTS", KeyOf(young)}).integer, 0);
}

TEST_F(RedisCodeStoreTest, WithoutATimeToLiveNothingExpires) {
  const auto store = Store();
  store->Insert({Name("a")}, FilledBlock(10, 'a', absl::FromUnixSeconds(1)));
  store->Flush();
  EXPECT_EQ(server_->Command({"PTTL", KeyOf(Name("a"))}).integer, -1);
  EXPECT_NE(Find(*store, Name("a")), nullptr);
}

TEST_F(RedisCodeStoreTest, WhatIsNoBlockIsDeletedCountedAndNeverGiven) {
  const auto store = Store();
  const std::vector<Digest> chain = Fill(*store, 5);
  const std::string record = SerializeBlock(chain[2], *NumberedBlock(2));
  std::vector<std::pair<std::string, std::string>> wrong = {
      {"empty of sense", "hello"},
      {"cut short", record.substr(0, record.size() - 1)},
      {"another's", SerializeBlock(chain[3], *NumberedBlock(2))}};
  std::string damaged = record;
  damaged[record.size() / 2] = static_cast<char>(damaged[record.size() / 2] ^ 1);
  wrong.emplace_back("damaged", damaged);
  std::int64_t dropped = 0;
  for (const auto& [what, value] : wrong) {
    server_->Command({"SET", KeyOf(chain[2]), value});
    EXPECT_THAT(store->FindPrefix(chain), SizeIs(2)) << what;
    EXPECT_EQ(server_->Command({"EXISTS", KeyOf(chain[2])}).integer, 0) << what;
    EXPECT_EQ(store->stats()[0].dropped_corrupt, ++dropped) << what;
  }
  server_->Command({"LPUSH", KeyOf(chain[2]), "a", "b"});
  EXPECT_THAT(store->FindPrefix(chain), SizeIs(2));
  EXPECT_EQ(server_->Command({"EXISTS", KeyOf(chain[2])}).integer, 0);
  EXPECT_EQ(store->stats()[0].dropped_corrupt, ++dropped);
  EXPECT_THAT(warnings_.texts(), ElementsAre(HasSubstr("it is deleted")));  // one in a minute

  // Its place can be taken by the right one again.
  store->Insert(absl::MakeConstSpan(chain).first(3), NumberedBlock(2));
  store->Flush();
  EXPECT_THAT(store->FindPrefix(chain), SizeIs(5));
  EXPECT_EQ(store->stats()[0].read_failures, 0);
}

TEST_F(RedisCodeStoreTest, AValueOverTheLimitIsNotEvenRead) {
  RedisCodeStoreOptions options = Options(server_->tcp(), warnings_);
  options.max_value_bytes = 10'000;
  const auto store = RedisCodeStore::Create(std::move(options));
  server_->Command({"SET", KeyOf(Name("a")), std::string(20'000, 'x')});
  EXPECT_EQ(Find(*store, Name("a")), nullptr);
  EXPECT_EQ(store->stats()[0].dropped_corrupt, 1);
  store->Insert({Name("b")}, FilledBlock(20'000));
  store->Flush();
  EXPECT_EQ(server_->Command({"DBSIZE"}).integer, 0);
}

TEST_F(RedisCodeStoreTest, WhatIsThereIsNotSentAgain) {
  const auto first = Store();
  const std::vector<Digest> chain = Fill(*first, 3);
  const auto second = Store();
  Fill(*second, 3);
  const std::string stats(*server_->Command({"INFO", "commandstats"}).text);
  EXPECT_THAT(stats, HasSubstr("cmdstat_set:calls=3,"));
  EXPECT_EQ(second->stats()[0].write_failures, 0);
}

TEST_F(RedisCodeStoreTest, AServerThatIsKilledAndComesBack) {
  const auto store = Store();
  std::vector<Digest> chain = Fill(*store, 4);
  EXPECT_THAT(store->FindPrefix(chain), SizeIs(4));
  server_->Kill();
  EXPECT_THAT(store->FindPrefix(chain), IsEmpty());
  EXPECT_TRUE(WaitUntil([&] { return store->stats()[0].read_failures > 2; }));  // tried again and again
  EXPECT_FALSE(store->up());
  // Nobody waits for it, and what is inserted meanwhile waits.
  const absl::Time start = absl::Now();
  for (int i = 0; i < 1000; ++i) EXPECT_THAT(store->FindPrefix(chain), IsEmpty());
  EXPECT_LT(absl::Now() - start, absl::Seconds(1));
  const absl::Time created = absl::FromUnixMillis(absl::ToUnixMillis(absl::Now()));
  for (std::size_t i = 0; i < chain.size(); ++i) {
    store->Insert(absl::MakeConstSpan(chain).first(i + 1), NumberedBlock(i, created));
  }
  EXPECT_THAT(warnings_.texts(), ElementsAre(HasSubstr("it is left out")));

  ASSERT_TRUE(server_->Restart().ok());
  store->Flush();
  const auto blocks = store->FindPrefix(chain);
  ASSERT_THAT(blocks, SizeIs(4));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(SameBlock(*blocks[i], *NumberedBlock(i, created)));
  EXPECT_THAT(warnings_.texts(), ElementsAre(HasSubstr("it is left out"), HasSubstr("answers again")));
}

TEST_F(RedisCodeStoreTest, AServerThatIsRestartedBetweenRequestsIsNoOutage) {
  const auto store = Store();
  const std::vector<Digest> chain = Fill(*store, 2);
  absl::SleepFor(absl::Milliseconds(150));
  ASSERT_TRUE(server_->Restart().ok());
  EXPECT_THAT(store->FindPrefix(chain), IsEmpty());
  EXPECT_TRUE(WaitUntil([&] { return store->up(); }));
  EXPECT_THAT(Fill(*store, 2), SizeIs(2));
  EXPECT_THAT(store->FindPrefix(chain), SizeIs(2));
  EXPECT_THAT(warnings_.texts(), IsEmpty());
}

TEST_F(RedisCodeStoreTest, KilledAgainAndAgainWhileBlocksAreWrittenItGivesNoWrongBlock) {
  RedisCodeStoreOptions options = Options(server_->tcp(), warnings_);
  options.retry_interval = absl::Milliseconds(10);
  const auto store = RedisCodeStore::Create(std::move(options));
  const absl::Time created = absl::FromUnixMillis(absl::ToUnixMillis(absl::Now()));
  std::vector<Digest> chain;
  for (std::uint64_t i = 0; i < 50; ++i) chain.push_back(NumberedName(i));
  std::atomic<std::int64_t> given = 0;
  std::jthread user([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (std::size_t i = 0; i < chain.size(); ++i) {
        store->Insert(absl::MakeConstSpan(chain).first(i + 1), NumberedBlock(i, created));
      }
      const auto blocks = store->FindPrefix(chain);
      given += static_cast<std::int64_t>(blocks.size());
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        ASSERT_TRUE(SameBlock(*blocks[i], *NumberedBlock(i, created)));
      }
    }
  });
  for (int round = 0; round < 20; ++round) {
    absl::SleepFor(absl::Milliseconds(3 * round));
    ASSERT_TRUE(server_->Restart().ok());
  }
  EXPECT_TRUE(WaitUntil([&] { return given > 0; }));
  user = {};
  EXPECT_EQ(store->stats()[0].dropped_corrupt, 0);
}

TEST_F(RedisCodeStoreTest, AServerThatHangsCostsOneTimeout) {
  RedisCodeStoreOptions options = Options(server_->tcp(), warnings_);
  options.timeout = absl::Milliseconds(200);
  options.retry_interval = absl::Seconds(30);
  const auto store = RedisCodeStore::Create(std::move(options));
  const std::vector<Digest> chain = Fill(*store, 2);
  server_->Signal(SIGSTOP);
  const absl::Time start = absl::Now();
  for (int i = 0; i < 50; ++i) EXPECT_THAT(store->FindPrefix(chain), IsEmpty());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(200));
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
  server_->Signal(SIGCONT);
}

TEST_F(RedisCodeStoreTest, ThereMayBeNoServerAtTheStart) {
  server_->Kill();
  const auto store = Store();
  EXPECT_FALSE(store->up());
  EXPECT_EQ(Find(*store, Name("a")), nullptr);
  EXPECT_THAT(warnings_.texts(), ElementsAre(HasSubstr("it is left out")));
  ASSERT_TRUE(server_->Restart().ok());
  EXPECT_TRUE(WaitUntil([&] { return store->up(); }));
  EXPECT_THAT(store->FindPrefix(Fill(*store, 3)), SizeIs(3));
}

TEST_F(RedisCodeStoreTest, TheQueueIsBounded) {
  server_->Kill();
  RedisCodeStoreOptions options = Options(server_->tcp(), warnings_);
  options.max_queued_bytes = 100'000;
  auto store = RedisCodeStore::Create(std::move(options));
  for (int i = 0; i < 20; ++i) store->Insert({Name(absl::StrCat(i))}, FilledBlock(10'000));
  EXPECT_EQ(store->stats()[0].queue_drops, 11);
  // What waits already is not taken twice.
  store->Insert({Name("0")}, FilledBlock(10'000));
  EXPECT_EQ(store->stats()[0].queue_drops, 11);
  store.reset();
  EXPECT_THAT(warnings_.texts(), SizeIs(2));  // of the server and of the queue; what is left then is no news
}

TEST_F(RedisCodeStoreTest, WhatWaitsIsWrittenAtTheEnd) {
  auto store = Store();
  for (int i = 0; i < 50; ++i) store->Insert({Name(absl::StrCat(i))}, FilledBlock(10'000, 'x', absl::Now()));
  store.reset();
  EXPECT_EQ(server_->Command({"DBSIZE"}).integer, 50);
}

TEST_F(RedisCodeStoreTest, AFullServerIsAWriteFailure) {
  Start({"--maxmemory", "3mb", "--maxmemory-policy", "noeviction"});
  const auto store = Store();
  for (int i = 0; i < 40; ++i) store->Insert({Name(absl::StrCat(i))}, FilledBlock(100'000));
  store->Flush();
  EXPECT_GT(store->stats()[0].write_failures, 0);
  EXPECT_TRUE(store->up());
  EXPECT_THAT(warnings_.texts(), ElementsAre(HasSubstr("OOM")));
}

TEST_F(RedisCodeStoreTest, UserPasswordAndDatabase) {
  Start({"--requirepass", "secret", "--user", "scd", "on", ">geheim", "~scd:*", "+@all"}, "secret");
  RedisCodeStoreOptions options = Options(server_->tcp(), warnings_);
  options.server.password = "secret";
  options.server.database = 3;
  const auto store = RedisCodeStore::Create(options);
  EXPECT_THAT(store->FindPrefix(Fill(*store, 2)), SizeIs(2));
  EXPECT_THAT(*server_->Command({"INFO", "keyspace"}).text, HasSubstr("db3:keys=2"));

  options.server.user = "scd";
  options.server.password = "geheim";
  EXPECT_TRUE(RedisCodeStore::Create(options)->up());
  EXPECT_THAT(warnings_.texts(), IsEmpty());

  options.server.password = "falsch";
  EXPECT_FALSE(RedisCodeStore::Create(options)->up());
  options.server.user = "";
  options.server.password = "";
  EXPECT_FALSE(RedisCodeStore::Create(options)->up());
  EXPECT_THAT(warnings_.texts(), ElementsAre(HasSubstr("WRONGPASS"), HasSubstr("NOAUTH")));
  for (const std::string& text : warnings_.texts()) EXPECT_THAT(text, Not(HasSubstr("falsch")));
}

TEST_F(RedisCodeStoreTest, ReadersThatMayNotWriteReadAllTheSame) {
  Start({"--user", "reader", "on", "nopass", "~*", "+ping", "+get", "+strlen", "+zrevrangebyscore"});
  const auto writer = Store();
  const std::vector<Digest> chain = Fill(*writer, 3);
  RedisCodeStoreOptions options = Options(server_->tcp(), warnings_);
  options.server.user = "reader";
  options.server.password = "any";
  const auto reader = RedisCodeStore::Create(std::move(options));
  EXPECT_THAT(reader->FindPrefix(chain), SizeIs(3));
  server_->Command({"SET", KeyOf(chain[1]), "hello"});
  EXPECT_THAT(reader->FindPrefix(chain), SizeIs(1));
  EXPECT_THAT(reader->FindPrefix(chain), SizeIs(1));  // it is still there, and still not given
  EXPECT_TRUE(reader->up());
}

TEST_F(RedisCodeStoreTest, SourcesAreFoundTheLatestFirst) {
  const Digest bundle = Name("bundle");
  absl::Time now = absl::Now();
  RedisCodeStoreOptions options = Options(server_->tcp(), warnings_);
  options.ttl = absl::Hours(1);
  options.now = [&now] { return now; };
  const auto source = [&](int i) {
    return CodeSource{.bundle = bundle, .seed = Name(absl::StrCat("seed ", i)), .block_tokens = 32 + i};
  };
  for (int i = 0; i < 12; ++i) {
    options.sources = {source(i), {.bundle = Name("another"), .seed = Name("x"), .block_tokens = 16}};
    const auto entered = [&] {
      return server_->Command({"ZCARD", "scd:1:seeds:" + bundle.ToHex()}).integer == i + 1;
    };
    const auto store = RedisCodeStore::Create(options);
    ASSERT_TRUE(WaitUntil(entered)) << i;
    now += absl::Minutes(1);
  }
  options.sources = {};
  const auto reader = RedisCodeStore::Create(options);
  const std::vector<CodeSource> sources = reader->FindSources(bundle);
  ASSERT_THAT(sources, SizeIs(kMaxCodeSources));
  for (int i = 0; i < kMaxCodeSources; ++i)
    EXPECT_EQ(sources[static_cast<std::size_t>(i)], source(11 - i)) << i;
  EXPECT_THAT(reader->FindSources(Name("unknown")), IsEmpty());

  now += absl::Minutes(55);
  EXPECT_THAT(reader->FindSources(bundle), SizeIs(5));
  // What is no source is passed over.
  const std::string key = "scd:1:seeds:" + bundle.ToHex();
  const std::string score = absl::StrCat(absl::ToUnixSeconds(now));
  for (const std::string& member :
       {std::string("x"), bundle.ToHex(), bundle.ToHex() + ":0", bundle.ToHex() + ":99999999999999999999",
        bundle.ToHex() + ":-32", std::string(100'000 / 2, 'y')}) {
    server_->Command({"ZADD", key, score, member});
  }
  EXPECT_THAT(reader->FindSources(bundle), SizeIs(2));  // six of the eight that are looked at are none
  EXPECT_TRUE(reader->up());
}

TEST_F(RedisCodeStoreTest, SourcesAreEnteredAgainWhereTheServerForgotThem) {
  RedisCodeStoreOptions options = Options(server_->tcp(), warnings_);
  options.sources = {{.bundle = Name("bundle"), .seed = Name("seed"), .block_tokens = 32}};
  options.source_interval = absl::Milliseconds(20);
  const auto store = RedisCodeStore::Create(options);
  const auto known = [&] { return store->FindSources(Name("bundle")) == options.sources; };
  EXPECT_TRUE(WaitUntil(known));
  ASSERT_TRUE(server_->Restart().ok());
  EXPECT_TRUE(WaitUntil(known));
}

TEST_F(RedisCodeStoreTest, ManyThreadsAtOnce) {
  const auto store = Store();
  const absl::Time created = absl::FromUnixMillis(absl::ToUnixMillis(absl::Now()));
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 100; ++i) {
        const std::uint64_t number = (i * 7 + t) % 50;
        store->Insert({NumberedName(number)}, NumberedBlock(number, created));
        const auto found = Find(*store, NumberedName((number + t) % 50));
        EXPECT_TRUE(found == nullptr || SameBlock(*found, *NumberedBlock((number + t) % 50, created)));
      }
    });
  }
  threads.clear();
  store->Flush();
  for (std::uint64_t i = 0; i < 50; ++i) EXPECT_NE(Find(*store, NumberedName(i)), nullptr) << i;
}

}  // namespace
}  // namespace scd::testing
