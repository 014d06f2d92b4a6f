// Servers that are none, or mean no good: bounded time, bounded memory, and nothing is given.
#include <sys/resource.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/store/redis_code_store.h"
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

long ResidentMib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

// Answers the greeting as a server does, and everything after it with `answer`.
FakeRedisServer::Speak AfterGreeting(const std::string& answer) {
  return [answer](const std::string& received) {
    return received.find("PING") != std::string::npos ? std::string("+PONG\r\n") : answer;
  };
}

TEST(HostileRedisTest, WhatNeverAnswersCostsOneTimeoutAtTheStart) {
  Warnings warnings;
  FakeRedisServer server([](const std::string&) { return std::string(); });
  RedisCodeStoreOptions options = Options(server.server(), warnings);
  options.timeout = absl::Milliseconds(200);
  options.retry_interval = absl::Seconds(30);
  const absl::Time start = absl::Now();
  auto store = RedisCodeStore::Create(std::move(options));
  EXPECT_EQ(Find(*store, Name("a")), nullptr);
  store->Insert({Name("a")}, FilledBlock(100));
  store.reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
  EXPECT_THAT(warnings.texts(), Not(IsEmpty()));
}

TEST(HostileRedisTest, OneThatAnswersPingsAloneIsAskedOnceInEachInterval) {
  Warnings warnings;
  FakeRedisServer server(AfterGreeting(""));
  RedisCodeStoreOptions options = Options(server.server(), warnings);
  options.timeout = absl::Milliseconds(100);
  options.retry_interval = absl::Milliseconds(500);
  const auto store = RedisCodeStore::Create(std::move(options));
  absl::Duration waited;
  for (const absl::Time end = absl::Now() + absl::Seconds(3); absl::Now() < end;) {
    const absl::Time start = absl::Now();
    EXPECT_EQ(Find(*store, Name("a")), nullptr);
    waited += absl::Now() - start;
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_GT(store->stats()[0].read_failures, 2);
  EXPECT_LT(store->stats()[0].read_failures, 9);
  EXPECT_LT(waited, absl::Milliseconds(1500));
  EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("no answer in time")));
}

TEST(HostileRedisTest, ADribbleOfBytesDoesNotHoldItUp) {
  Warnings warnings;
  // A byte of an endless reply for each command; and each lookup sends several.
  FakeRedisServer server(AfterGreeting("$"));
  RedisCodeStoreOptions options = Options(server.server(), warnings);
  options.timeout = absl::Milliseconds(150);
  const auto store = RedisCodeStore::Create(std::move(options));
  const absl::Time start = absl::Now();
  EXPECT_EQ(Find(*store, Name("a")), nullptr);
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
}

class HostileAnswerTest : public ::testing::TestWithParam<std::pair<const char*, std::string>> {};

TEST_P(HostileAnswerTest, IsAMissWithinBoundedMemory) {
  Warnings warnings;
  FakeRedisServer server(AfterGreeting(GetParam().second));
  RedisCodeStoreOptions options = Options(server.server(), warnings);
  options.timeout = absl::Milliseconds(300);
  options.retry_interval = absl::Milliseconds(20);
  options.sources = {{.bundle = Name("bundle"), .seed = Name("seed"), .block_tokens = 32}};
  const long before = ResidentMib();
  auto store = RedisCodeStore::Create(std::move(options));
  const std::vector<Digest> chain = {Name("a"), Name("b"), Name("c")};
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(store->FindPrefix(chain), IsEmpty());
    EXPECT_THAT(store->FindSources(Name("bundle")), IsEmpty());
    EXPECT_LE(store->CountPrefix(chain), 3);
    store->Insert({Name("a")}, FilledBlock(100));
    absl::SleepFor(absl::Milliseconds(30));
  }
  store.reset();
  EXPECT_LT(ResidentMib() - before, 64);
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileAnswerTest,
    ::testing::Values(
        std::pair{"Garbage", std::string("HTTP/1.1 400 Bad Request\r\n\r\n")},
        std::pair{"Zeros", std::string(1000, '\0')}, std::pair{"NoType", std::string("\r\n\r\n\r\n")},
        std::pair{"BadInteger", std::string(":twelve\r\n")},
        std::pair{"LongInteger", std::string(":99999999999999999999999999\r\n")},
        std::pair{"NegativeLength", std::string("$-7\r\n")},
        std::pair{"HugeString", std::string("$2147483647\r\nabc")},
        std::pair{"ImpossibleString", std::string("$9223372036854775807\r\nabc")},
        std::pair{"HugeArray", std::string("*2147483647\r\n")},
        std::pair{"ImpossibleArray", std::string("*9223372036854775807\r\n")},
        std::pair{"DeepArrays", std::string("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n")},
        std::pair{"EndlessLine", absl::StrCat("+", std::string(4 << 20, 'x'))},
        std::pair{"HugeLengthsAndThenNothing", std::string(":67108864\r\n:67108864\r\n:67108864\r\n")},
        std::pair{"MoreThanWasAsked", std::string(":5\r\n:5\r\n:5\r\n:5\r\n:5\r\n:5\r\n:5\r\n:5\r\n")},
        std::pair{"NegativeNumbers", std::string(":-1\r\n:-1\r\n:-1\r\n")},
        std::pair{"Errors", std::string("-ERR no\r\n-ERR no\r\n-ERR no\r\n")},
        std::pair{"LongError", absl::StrCat("-", std::string(60'000, '\x1b'), "\r\n")},
        std::pair{"Nils", std::string("$-1\r\n$-1\r\n$-1\r\n")},
        std::pair{"WrongTypes", std::string("-WRONGTYPE a\r\n-WRONGTYPE a\r\n-WRONGTYPE a\r\n")}),
    [](const auto& info) { return info.param.first; });

TEST(HostileRedisTest, AStringThatGoesOnBeyondItsLengthIsCutOff) {
  Warnings warnings;
  // It says ten bytes, and sends a string of 512 MiB.
  std::string flood = absl::StrCat("$536870912\r\n", std::string(32 << 20, 'x'));
  FakeRedisServer server([flood](const std::string& received) {
    if (received.find("PING") != std::string::npos) return std::string("+PONG\r\n");
    if (received.find("STRLEN") != std::string::npos) return std::string(":10\r\n");
    return flood;
  });
  RedisCodeStoreOptions options = Options(server.server(), warnings);
  const long before = ResidentMib();
  const auto store = RedisCodeStore::Create(std::move(options));
  EXPECT_EQ(Find(*store, Name("a")), nullptr);
  EXPECT_EQ(store->stats()[0].read_failures, 1);
  // The test's own copies of the flood are among it, and with ThreadSanitizer what it keeps beside them.
#ifdef __SANITIZE_THREAD__
  constexpr long kMostMib = 4 * (16 + 64);
#else
  constexpr long kMostMib = 16 + 64;
#endif
  EXPECT_LT(ResidentMib() - before, kMostMib);
}

TEST(RedisAddressTest, HostAndPortOrASocket) {
  for (const std::string good : {"127.0.0.1:6379", "localhost:1", "[::1]:6379", "unix:/run/redis.sock"}) {
    const auto server = ParseRedisAddress(good);
    ASSERT_TRUE(server.ok()) << good;
    EXPECT_EQ(server->ToString(), good);
  }
  for (const std::string bad : {"", "localhost", ":6379", "a:0", "a:65536", "a:x", "a:", "::1:6379",
                                "[]:6379", "unix:", "unix:relative", "unix:/", "a:+5", "a: 5"}) {
    EXPECT_EQ(ParseRedisAddress(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_FALSE(ParseRedisAddress("unix:/" + std::string(200, 'x')).ok());
}

}  // namespace
}  // namespace scd::testing
