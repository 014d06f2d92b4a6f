#include "consumer/shared_code_client.h"

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/cache/block_keys.h"
#include "common/store/code_keys.h"
#include "common/store/redis_code_store.h"
#include "common/wire/payload_format.h"
#include "common/wire/transfer_checker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/redis_server.h"

namespace scd::testing {
namespace {

constexpr std::int64_t kBlockTokens = 8;

Digest Name(const std::string& text) {
  return DigestBuilder("test").AddString(text).Finish();
}

LayerPlan Plan() {
  LayerPlan plan;
  plan.codec = Codec::kBF16;
  plan.layers = {{.treatment = LayerTreatment::kReuse, .rank_k = 4, .rank_v = 6},
                 {.treatment = LayerTreatment::kPatch, .rank_h = 8}};
  return plan;
}

// A producer that does what it is told: it fails, or answers with so many codes and then ends so.
class FakeProducer final : public CodeClient {
 public:
  struct Script {
    std::int64_t num_codes = 0;
    TransferOutcome outcome = {};
  };
  explicit FakeProducer(Script script, int* num_calls) : script_(std::move(script)), num_calls_(num_calls) {}

  std::shared_ptr<CodeStream> Prepare(CodeRequest request, std::shared_ptr<CodeSink> sink) override {
    ++*num_calls_;
    class Stream final : public CodeStream {
     public:
      Stream(Script script, TokenRange range, std::shared_ptr<CodeSink> sink)
          : script_(std::move(script)), range_(range), sink_(std::move(sink)) {}
      ~Stream() override {
        if (thread_.joinable()) thread_.detach();
      }
      void Start() override {
        thread_ = std::thread([script = script_, range = range_, sink = sink_] {
          for (std::int64_t i = 0; i < script.num_codes; ++i) sink->OnCode(LayerCode());
          CodeStreamEnd end;
          end.outcome = script.outcome;
          if (script.outcome.ok()) end.range = range;
          sink->OnEnd(end);
        });
        sink_.reset();
      }
      void Release() override {}
      void Cancel() override {}

     private:
      const Script script_;
      const TokenRange range_;
      std::shared_ptr<CodeSink> sink_;
      std::thread thread_;
    };
    return std::make_shared<Stream>(script_, request.range, std::move(sink));
  }

 private:
  const Script script_;
  int* const num_calls_;
};

class Sink final : public CodeSink {
 public:
  void OnCode(LayerCode code) override {
    const absl::MutexLock lock(&mutex_);
    codes_.push_back(std::move(code));
  }
  void OnEnd(const CodeStreamEnd& end) override {
    const absl::MutexLock lock(&mutex_);
    end_ = end;
  }

  CodeStreamEnd WaitForEnd() {
    const absl::MutexLock lock(&mutex_);
    const auto ended = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return end_.has_value(); };
    mutex_.AwaitWithTimeout(absl::Condition(&ended), absl::Seconds(20));
    return end_.value_or(CodeStreamEnd{});
  }
  bool WaitForCodes(std::size_t count) {
    const absl::MutexLock lock(&mutex_);
    const auto there = [this, count]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return codes_.size() >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(20));
  }
  std::vector<LayerCode> codes() {
    const absl::MutexLock lock(&mutex_);
    return codes_;
  }
  bool ended() {
    const absl::MutexLock lock(&mutex_);
    return end_.has_value();
  }

 private:
  absl::Mutex mutex_;
  std::vector<LayerCode> codes_ ABSL_GUARDED_BY(mutex_);
  std::optional<CodeStreamEnd> end_ ABSL_GUARDED_BY(mutex_);
};

const TransferOutcome kAway = {TransferReason::kProducerUnavailable, absl::UnavailableError("away")};

class SharedCodeClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasRedisServer()) GTEST_SKIP() << kNoRedisServer;
    auto started = RedisServerProcess::Start();
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    for (std::int32_t i = 0; i < 100; ++i) prompt_->push_back(i * 7 % 50);
    codes_ = std::make_unique<SharedCodes>(Store({}), bundle_);
  }

  std::unique_ptr<RedisCodeStore> Store(std::vector<CodeSource> sources) {
    RedisCodeStoreOptions options;
    options.server = server_->tcp();
    options.timeout = absl::Seconds(5);
    options.retry_interval = absl::Milliseconds(50);
    options.sources = std::move(sources);
    return RedisCodeStore::Create(std::move(options));
  }

  // What a producer with this seed leaves of the prompt's codes [first, end), which is where a block ends.
  // Numbers are 1, but for `spoilt` in one of the blocks.
  void Leave(const Digest& seed, std::int64_t first, std::int64_t end, std::int64_t spoilt_block = -1) {
    const auto store = Store({{.bundle = bundle_, .seed = seed, .block_tokens = kBlockTokens}});
    const auto pages =
        BlockKeys(seed, absl::MakeConstSpan(*prompt_).first(static_cast<std::size_t>(end)), kBlockTokens);
    const auto keys = CodeKeys(bundle_, Plan(), first, pages, kBlockTokens);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::int64_t tokens = i == 0 ? kBlockTokens - first % kBlockTokens : kBlockTokens;
      std::vector<std::string> payloads;
      for (const CodeColumn& column : PlanColumns(Plan())) {
        const auto size =
            static_cast<std::size_t>(PayloadBytes(Codec::kBF16, column.kind, tokens, column.rank));
        std::string payload;
        while (payload.size() < size) payload += std::string("\x80\x3f", 2);
        if (static_cast<std::int64_t>(i) == spoilt_block) payload.replace(0, 2, "\xc0\x7f");  // NaN
        payloads.push_back(std::move(payload));
      }
      store->Insert(absl::MakeConstSpan(keys).first(i + 1), MakeCodeBlock(tokens, std::move(payloads)));
    }
    store->Flush();
    while (codes_->store().up() && FindSources(seed) == 0) absl::SleepFor(absl::Milliseconds(5));
  }
  int FindSources(const Digest& seed) {
    const RedisReply reply =
        server_->Command({"ZSCORE", "scd:1:seeds:" + bundle_.ToHex(), seed.ToHex() + ":8"});
    return reply.is(RedisReply::Kind::kString) ? 1 : 0;
  }

  CodeRequest Request(std::int64_t begin, std::int64_t end, std::int64_t max_uncoded = 7) {
    CodeRequest request;
    request.prompt = prompt_;
    request.plan = Plan();
    request.range = {begin, end};
    request.max_uncoded_tokens = max_uncoded;
    request.deadline = absl::Now() + absl::Seconds(20);
    return request;
  }

  // Runs it to its end, giving each place back at once.
  CodeStreamEnd Run(FakeProducer::Script script, bool first, CodeRequest request) {
    client_ = CreateSharedCodeClient(std::make_unique<FakeProducer>(std::move(script), &num_calls_), *codes_,
                                     {.first = first, .queue_frames = 100});
    sink_ = std::make_shared<Sink>();
    const std::shared_ptr<CodeStream> stream = client_->Prepare(std::move(request), sink_);
    stream->Start();
    return sink_->WaitForEnd();
  }

  const Digest bundle_ = Name("bundle");
  std::shared_ptr<std::vector<std::int32_t>> prompt_ = std::make_shared<std::vector<std::int32_t>>();
  std::unique_ptr<RedisServerProcess> server_;
  std::unique_ptr<SharedCodes> codes_;
  std::unique_ptr<CodeClient> client_;
  std::shared_ptr<Sink> sink_;
  int num_calls_ = 0;
};

TEST_F(SharedCodeClientTest, AKnownPrefixIsServedWhereTheProducerIsAway) {
  Leave(Name("seed"), 1, 88);
  for (const TransferOutcome& outcome :
       {kAway, TransferOutcome{TransferReason::kRefused, absl::ResourceExhaustedError("full")}}) {
    const CodeStreamEnd end = Run({.outcome = outcome}, false, Request(1, 90));
    ASSERT_TRUE(end.outcome.ok()) << end.outcome.status;
    EXPECT_EQ(end.range, (TokenRange{1, 88}));
    EXPECT_EQ(end.stats.stored_tokens, 87);
    EXPECT_EQ(end.stats.shared_store_tokens, 87);
    EXPECT_EQ(end.stats.code_bytes(), 87 * 2 * (4 + 6 + 8));
    TransferChecker checker(Plan(), 1, 88);
    for (const LayerCode& code : sink_->codes()) EXPECT_TRUE(checker.Accept(code).ok());
    EXPECT_TRUE(checker.complete());
  }
  EXPECT_EQ(num_calls_, 2);
  EXPECT_EQ(codes_->num_served(), 2);
}

TEST_F(SharedCodeClientTest, WhatCannotBeServedEndsAsTheProducerDid) {
  Leave(Name("seed"), 1, 48);
  const auto expect_away = [&](CodeRequest request, const char* what) {
    const CodeStreamEnd end = Run({.outcome = kAway}, false, std::move(request));
    EXPECT_EQ(end.outcome.reason, TransferReason::kProducerUnavailable) << what;
    EXPECT_EQ(end.outcome.status, kAway.status) << what;
    EXPECT_TRUE(sink_->codes().empty()) << what;
  };
  expect_away(Request(1, 90), "too little is known");
  expect_away(Request(1, 50, 1), "more is left out than may be");
  expect_away(Request(2, 50), "codes of this beginning are not known");
  CodeRequest request = Request(1, 50);
  request.plan.layers[0].rank_k = 3;
  expect_away(std::move(request), "another plan");
  request = Request(1, 50);
  request.no_code_store = true;
  expect_away(std::move(request), "stores are ruled out");
  request = Request(1, 50);
  request.deadline = absl::Now() - absl::Seconds(1);
  expect_away(std::move(request), "no time is left");
  server_->Kill();
  expect_away(Request(1, 50), "the store is away too");
}

TEST_F(SharedCodeClientTest, BeginningBehindWhatIsThere) {
  Leave(Name("seed"), 1, 88);
  const CodeStreamEnd end = Run({.outcome = kAway}, false, Request(32, 88, 0));
  ASSERT_TRUE(end.outcome.ok()) << end.outcome.status;
  EXPECT_EQ(end.range, (TokenRange{32, 88}));
}

TEST_F(SharedCodeClientTest, OtherFailuresAreNotCoveredUp) {
  Leave(Name("seed"), 1, 88);
  for (const TransferReason reason : {TransferReason::kHandshake, TransferReason::kCorruptFrame,
                                      TransferReason::kRefused, TransferReason::kDeadline}) {
    const CodeStreamEnd end = Run({.outcome = {reason, absl::InternalError("x")}}, false, Request(1, 90));
    EXPECT_EQ(end.outcome.reason, reason);
  }
  // Nor what breaks after codes have come.
  const CodeStreamEnd end = Run({.num_codes = 1, .outcome = kAway}, false, Request(1, 90));
  EXPECT_EQ(end.outcome.reason, TransferReason::kProducerUnavailable);
  EXPECT_EQ(codes_->num_served() + codes_->num_unknown(), 0);
}

TEST_F(SharedCodeClientTest, AProducerThatServesIsNotDisturbed) {
  Leave(Name("seed"), 1, 88);
  const CodeStreamEnd end = Run({.num_codes = 3}, false, Request(1, 90));
  EXPECT_TRUE(end.outcome.ok());
  EXPECT_EQ(end.stats.shared_store_tokens, 0);
  EXPECT_EQ(sink_->codes().size(), 3u);
  EXPECT_EQ(codes_->num_served() + codes_->num_unknown(), 0);
}

TEST_F(SharedCodeClientTest, TheStoreMayBeAskedFirst) {
  Leave(Name("seed"), 1, 88);
  CodeStreamEnd end = Run({.num_codes = 3}, true, Request(1, 90));
  EXPECT_TRUE(end.outcome.ok());
  EXPECT_EQ(end.stats.shared_store_tokens, 87);
  EXPECT_EQ(num_calls_, 0);
  end = Run({.num_codes = 3}, true, Request(1, 99));
  EXPECT_TRUE(end.outcome.ok());
  EXPECT_EQ(end.stats.shared_store_tokens, 0);
  EXPECT_EQ(num_calls_, 1);
  end = Run({.outcome = kAway}, true, Request(1, 99));
  EXPECT_EQ(end.outcome.reason, TransferReason::kProducerUnavailable);
  EXPECT_EQ(codes_->num_unknown(), 2);  // it is not asked twice
}

TEST_F(SharedCodeClientTest, SourcesAreTriedUntilOneHasEnough) {
  Leave(Name("old"), 1, 88);
  Leave(Name("short"), 1, 16);
  Leave(Name("none"), 1, 8);
  EXPECT_TRUE(Run({.outcome = kAway}, false, Request(1, 90)).outcome.ok());
}

TEST_F(SharedCodeClientTest, CodesThatAreNoNumbersAreNotHandedOver) {
  Leave(Name("seed"), 1, 88, 5);
  const CodeStreamEnd end = Run({.outcome = kAway}, false, Request(1, 90));
  EXPECT_EQ(end.outcome.reason, TransferReason::kProducerUnavailable);
  EXPECT_TRUE(sink_->codes().empty());
}

TEST_F(SharedCodeClientTest, NoMoreCodesAreHandedOverThanThereArePlaces) {
  Leave(Name("seed"), 1, 88);
  client_ = CreateSharedCodeClient(std::make_unique<FakeProducer>(FakeProducer::Script{}, &num_calls_),
                                   *codes_, {.first = true, .queue_frames = 1});
  const auto sink = std::make_shared<Sink>();
  const std::shared_ptr<CodeStream> stream = client_->Prepare(Request(1, 90), sink);
  stream->Start();
  for (std::size_t count = 1; count <= 3; ++count) {
    EXPECT_TRUE(sink->WaitForCodes(count));
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_EQ(sink->codes().size(), count);
    EXPECT_EQ(sink->ended(), count == 3);  // after the last one there is nothing to wait for
    stream->Release();
  }
  EXPECT_TRUE(sink->WaitForEnd().outcome.ok());
}

TEST_F(SharedCodeClientTest, CancelledBeforeWhileAndAfter) {
  Leave(Name("seed"), 1, 88);
  client_ = CreateSharedCodeClient(std::make_unique<FakeProducer>(FakeProducer::Script{}, &num_calls_),
                                   *codes_, {.first = true, .queue_frames = 1});
  auto sink = std::make_shared<Sink>();
  std::shared_ptr<CodeStream> stream = client_->Prepare(Request(1, 90), sink);
  stream->Cancel();
  stream->Start();
  EXPECT_EQ(sink->WaitForEnd().outcome.reason, TransferReason::kCancelled);

  sink = std::make_shared<Sink>();
  stream = client_->Prepare(Request(1, 90), sink);
  stream->Start();
  EXPECT_TRUE(sink->WaitForCodes(1));
  stream->Cancel();
  EXPECT_EQ(sink->WaitForEnd().outcome.reason, TransferReason::kCancelled);
  EXPECT_EQ(sink->codes().size(), 1u);
  client_.reset();
  stream->Cancel();
  stream->Release();
}

TEST_F(SharedCodeClientTest, ADeadlineEndsWhatWaitsForPlaces) {
  Leave(Name("seed"), 1, 88);
  client_ = CreateSharedCodeClient(std::make_unique<FakeProducer>(FakeProducer::Script{}, &num_calls_),
                                   *codes_, {.first = true, .queue_frames = 1});
  const auto sink = std::make_shared<Sink>();
  CodeRequest request = Request(1, 90);
  request.deadline = absl::Now() + absl::Milliseconds(200);
  const std::shared_ptr<CodeStream> stream = client_->Prepare(std::move(request), sink);
  stream->Start();
  EXPECT_TRUE(sink->WaitForCodes(1));
  absl::SleepFor(absl::Milliseconds(250));
  stream->Release();
  EXPECT_EQ(sink->WaitForEnd().outcome.reason, TransferReason::kDeadline);
}

}  // namespace
}  // namespace scd::testing
