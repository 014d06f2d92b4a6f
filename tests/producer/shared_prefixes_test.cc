// What jobs of one engine take from earlier ones and from each other.
#include "producer/shared_prefixes.h"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "common/cache/kv_cache_settings.h"
#include "gtest/gtest.h"
#include "producer/prefill_engine.h"
#include "tests/producer/fake_job.h"

namespace scd {
namespace {

using testing::CodesByColumn;
using testing::ExpectedCodes;
using testing::FakeJob;
using testing::Gate;
using testing::Joined;
using testing::TestTokens;

constexpr std::int64_t kBlock = 16;

// `shared` tokens of one document and `own` of a question.
std::vector<std::int32_t> Prompt(std::int64_t shared, std::int64_t own, std::uint32_t question) {
  return Joined(TestTokens(shared, 77), TestTokens(own, 1000 + question));
}

class SharedPrefixesTest : public ::testing::Test {
 protected:
  void Create(PrefillEngineOptions options, bool with_store = true) {
    options.block_tokens = kBlock;
    engine_.reset();
    store_ = std::make_unique<MemoryCodeStore>(1 << 24);
    auto engine = PrefillEngine::Create(tiny_.transformer(), options, with_store ? store_.get() : nullptr);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  std::shared_ptr<FakeJob> Job(std::vector<std::int32_t> tokens, std::int64_t first_token = 1) {
    auto job = std::make_shared<FakeJob>(std::move(tokens), first_token);
    job->Share(kBlock);
    return job;
  }
  std::shared_ptr<FakeJob> Submit(std::vector<std::int32_t> tokens, std::int64_t first_token = 1) {
    const auto job = Job(std::move(tokens), first_token);
    EXPECT_TRUE(engine_->Submit(job).ok());
    return job;
  }
  void ExpectRight(FakeJob& job) {
    ASSERT_TRUE(job.WaitComplete().ok()) << job.WaitComplete();
    EXPECT_TRUE(job.CheckCodes().ok()) << job.CheckCodes();
    const PrefillInput& input = job.input();
    EXPECT_TRUE(job.codes() == ExpectedCodes(*input.bundle, input.plan, input.token_ids, input.first_token));
    const PrefillReport report = job.report();
    EXPECT_EQ(report.num_prefilled_tokens + report.num_cached_tokens,
              static_cast<std::int64_t>(input.token_ids.size()));
  }
  std::int64_t rows() const { return engine_->stats().prefilled_tokens; }

  testing::TinyProducer& tiny_ = testing::SharedTinyProducer();
  std::unique_ptr<MemoryCodeStore> store_;
  std::unique_ptr<PrefillEngine> engine_;
};

TEST_F(SharedPrefixesTest, AKnownPrefixIsNotPrefilledAgain) {
  Create({.chunk_tokens = 64, .kv_tokens = 512});
  const auto first = Submit(Prompt(100, 20, 1));
  ExpectRight(*first);
  EXPECT_EQ(first->stored_at_begin(), 0);
  EXPECT_EQ(rows(), 120);
  EXPECT_EQ(engine_->stats().pages_used, 0);
  EXPECT_EQ(engine_->stats().pages_cached, 7);  // 120 / 16

  const auto second = Submit(Prompt(100, 33, 2));
  ExpectRight(*second);
  EXPECT_EQ(second->report().num_cached_tokens, 96);
  EXPECT_EQ(second->report().num_stored_tokens, 95);  // from first_token on
  EXPECT_EQ(second->stored_at_begin(), 95);
  EXPECT_EQ(rows(), 120 + 37);
  EXPECT_EQ(engine_->stats().skipped_tokens, 96);
  EXPECT_EQ(engine_->stats().prefix_hits, 1);
}

TEST_F(SharedPrefixesTest, AllOfAPromptMayBeKnown) {
  Create({.chunk_tokens = 64, .kv_tokens = 512});
  ExpectRight(*Submit(Prompt(96, 0, 1)));
  const auto again = Submit(Prompt(96, 0, 1));
  ExpectRight(*again);
  EXPECT_EQ(again->report().prefill_ms, 0);
  EXPECT_EQ(rows(), 96);
}

// A consumer that has the first blocks in its own cache asks for the rest.
TEST_F(SharedPrefixesTest, RequestsThatBeginElsewhereShareBlocks) {
  Create({.chunk_tokens = 64, .kv_tokens = 512});
  ExpectRight(*Submit(Prompt(100, 20, 1)));
  const auto later = Submit(Prompt(100, 20, 2), 48);
  ExpectRight(*later);
  EXPECT_EQ(later->report().num_cached_tokens, 96);
  EXPECT_EQ(later->report().num_stored_tokens, 48);
  EXPECT_EQ(rows(), 120 + 24);
  // Its first block is part of one: computed for its codes, and the rest goes on behind it.
  const auto within = Submit(Prompt(100, 20, 3), 50);
  ExpectRight(*within);
  EXPECT_EQ(within->report().num_prefilled_tokens, 16 + 24);
  EXPECT_EQ(within->report().num_stored_tokens, 32);
  const auto zero = Submit(Prompt(100, 20, 4), 0);
  ExpectRight(*zero);
  EXPECT_EQ(zero->report().num_prefilled_tokens, 16 + 24);
}

TEST_F(SharedPrefixesTest, PagesAloneHelpOnlyBeforeTheFirstCode) {
  Create({.chunk_tokens = 64, .kv_tokens = 512}, false);
  ExpectRight(*Submit(Prompt(100, 20, 1)));
  const auto again = Submit(Prompt(100, 20, 1));
  ExpectRight(*again);
  EXPECT_EQ(again->report().num_cached_tokens, 0);
  const auto later = Submit(Prompt(100, 20, 1), 80);
  ExpectRight(*later);
  EXPECT_EQ(later->report().num_cached_tokens, 80);
  EXPECT_EQ(later->report().num_stored_tokens, 0);
}

TEST_F(SharedPrefixesTest, AnotherPlanOrBundleIsPrefilledAgain) {
  Create({.chunk_tokens = 64, .kv_tokens = 512});
  ExpectRight(*Submit(Prompt(100, 20, 1)));
  const auto plan = Job(Prompt(100, 20, 1));
  plan->mutable_input().plan = tiny_.Plan(Codec::kF32);
  const auto bundle = Job(Prompt(100, 20, 1));
  bundle->mutable_input().bundle = &tiny_.bundle(1);
  for (const auto& job : {plan, bundle}) {
    job->Share(kBlock);
    ASSERT_TRUE(engine_->Submit(job).ok());
    ExpectRight(*job);
    EXPECT_EQ(job->stored_at_begin(), 0);
    EXPECT_EQ(job->report().num_prefilled_tokens, 120);
  }
}

// Pages of fewer bits give slightly other state, but what is shared is what would have been computed.
TEST_F(SharedPrefixesTest, PagesOfEveryTypeAreShared) {
  for (const DType dtype : {DType::kBF16, DType::kI8}) {
    Create({.chunk_tokens = 64, .kv_tokens = 512, .kv_dtype = dtype});
    const auto alone = std::make_shared<FakeJob>(Prompt(100, 33, 2));
    ASSERT_TRUE(engine_->Submit(alone).ok());
    ASSERT_TRUE(alone->WaitComplete().ok()) << alone->WaitComplete();
    ASSERT_TRUE(Submit(Prompt(100, 20, 1))->WaitComplete().ok());
    const auto behind = Submit(Prompt(100, 33, 2));
    ASSERT_TRUE(behind->WaitComplete().ok()) << behind->WaitComplete();
    EXPECT_EQ(behind->report().num_cached_tokens, 96);
    EXPECT_TRUE(behind->codes() == alone->codes());
  }
}

TEST_F(SharedPrefixesTest, WithoutSharingNothingIsKept) {
  Create({.chunk_tokens = 64, .kv_tokens = 512, .share_pages = false});
  for (int i = 0; i < 2; ++i) ExpectRight(*Submit(Prompt(100, 20, 1)));
  EXPECT_EQ(rows(), 240);
  EXPECT_EQ(engine_->stats().pages_cached, 0);
  EXPECT_GT(store_->size_bytes(), 0);
}

TEST_F(SharedPrefixesTest, KeptPagesGiveWayToPromptsThatNeedThem) {
  Create({.chunk_tokens = 64, .kv_tokens = 128});
  for (std::uint32_t i = 0; i < 3; ++i) ExpectRight(*Submit(TestTokens(128, i)));
  EXPECT_EQ(engine_->stats().pages_evicted, 16);
  EXPECT_EQ(engine_->stats().pages_cached, 8);
  const auto again = Submit(TestTokens(128, 2));
  ExpectRight(*again);
  EXPECT_EQ(again->report().num_cached_tokens, 128);
}

// Eight questions about one document at one time.
TEST_F(SharedPrefixesTest, JobsThatRunTogetherPrefillTheirPrefixOnce) {
  for (const std::int64_t kv_tokens : {2048, 512}) {  // all at once, and few at once
    Create({.chunk_tokens = 64, .kv_tokens = kv_tokens});
    std::vector<std::shared_ptr<FakeJob>> jobs;
    {
      Gate gate(tiny_.backend(), 0);
      for (std::uint32_t i = 0; i < 8; ++i) jobs.push_back(Submit(Prompt(400, 20 + i, i)));
      gate.WaitReached();
      gate.Open();
      for (const auto& job : jobs) ExpectRight(*job);
    }
    std::int64_t own = 0;  // what follows the 25 shared blocks
    for (std::int64_t i = 0; i < 8; ++i) own += 20 + i;
    EXPECT_EQ(rows(), 400 + own) << kv_tokens;
    EXPECT_EQ(engine_->stats().prefix_hits, 7);
    EXPECT_EQ(engine_->stats().skipped_tokens, 7 * 400);
    EXPECT_EQ(engine_->stats().pages_used, 0);
  }
}

TEST_F(SharedPrefixesTest, FollowersSurviveACancelledLeader) {
  Create({.chunk_tokens = 64, .kv_tokens = 2048});
  Gate gate(tiny_.backend(), 6);  // in the leader's third chunk (three attentions each)
  const auto leader = Submit(Prompt(400, 10, 1));
  const auto second = Submit(Prompt(400, 10, 2));
  const auto third = Submit(Prompt(400, 10, 3));
  gate.WaitReached();
  engine_->Cancel(*leader);
  gate.Open();
  EXPECT_EQ(leader->WaitComplete().code(), absl::StatusCode::kCancelled);
  ExpectRight(*second);
  ExpectRight(*third);
  const std::int64_t led = leader->report().num_prefilled_tokens;
  EXPECT_GT(led, 0);
  EXPECT_EQ(second->report().num_cached_tokens, led);
  EXPECT_EQ(third->report().num_cached_tokens, 400);
  EXPECT_EQ(rows(), 400 + 20);
  EXPECT_EQ(engine_->stats().pages_used, 0);
}

TEST_F(SharedPrefixesTest, ACancelledFollowerFreesItsSharesAtOnce) {
  Create({.chunk_tokens = 64, .kv_tokens = 2048});
  ExpectRight(*Submit(Prompt(400, 10, 1)));
  const auto follower = Job(Prompt(400, 10, 2));
  follower->SetRoom(false);
  ASSERT_TRUE(engine_->Submit(follower).ok());
  EXPECT_EQ(engine_->stats().pages_used, 25);
  engine_->Cancel(*follower);
  EXPECT_EQ(follower->WaitComplete().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine_->stats().pages_used, 0);
  EXPECT_EQ(engine_->stats().pages_cached, 25);
}

TEST_F(SharedPrefixesTest, ALeaderWithoutRoomHoldsNobodyUp) {
  Create({.chunk_tokens = 64, .kv_tokens = 2048});
  const auto leader = Job(Prompt(400, 10, 1));
  leader->SetRoom(false);
  ASSERT_TRUE(engine_->Submit(leader).ok());
  ExpectRight(*Submit(Prompt(400, 10, 2)));
  leader->SetRoom(true);
  engine_->Wake();
  ExpectRight(*leader);
  EXPECT_EQ(leader->report().num_cached_tokens, 400);
}

// Few pages, readers that pause and jobs that are cancelled: every job ends, and every whole one is right.
TEST_F(SharedPrefixesTest, JobsThatComeAndGoEndInFewPages) {
  Create({.chunk_tokens = 32, .kv_tokens = 384});
  std::mt19937 random(3);
  std::vector<std::shared_ptr<FakeJob>> jobs;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const std::vector<std::int32_t> document = TestTokens(32 + 16 * (random() % 10), 70 + random() % 3);
    const std::vector<std::int32_t> question = TestTokens(1 + random() % 40, 1000 + i);
    const auto job = Job(Joined(document, question), random() % 3 == 0 ? 16 : 1);
    job->SetRoom(random() % 2 == 0);
    jobs.push_back(job);
    ASSERT_TRUE(engine_->Submit(job).ok());
    if (random() % 4 == 0) engine_->Cancel(*jobs[i - random() % std::min(i + 1, 3u)]);
  }
  for (const auto& job : jobs) {
    job->SetRoom(true);
    engine_->Wake();
  }
  for (const auto& job : jobs) {
    const absl::Status status = job->WaitComplete();
    if (!absl::IsCancelled(status)) ExpectRight(*job);
  }
  EXPECT_EQ(engine_->stats().pages_used, 0);
  EXPECT_GT(engine_->stats().prefix_hits, 0);
  EXPECT_GT(engine_->stats().pages_evicted, 0);
}

// A short question on a prefix that a long prompt is about to compute lends it its turn.
TEST_F(SharedPrefixesTest, AFollowersTurnRunsItsLeader) {
  Create({.chunk_tokens = 32, .kv_tokens = 2048});
  Gate gate(tiny_.backend(), 0);
  const auto oldest = Submit(TestTokens(500, 5));
  gate.WaitReached();
  const auto leader = Submit(Prompt(32, 400, 1));
  const auto follower = Submit(Prompt(32, 8, 2));
  gate.Open();
  ExpectRight(*follower);
  EXPECT_EQ(follower->report().num_cached_tokens, 32);
  EXPECT_FALSE(oldest->complete());
  EXPECT_FALSE(leader->complete());
  ExpectRight(*oldest);
  ExpectRight(*leader);
}

// Chunks shorter than a granule give nothing to store, so a turn lent would be lost.
TEST_F(SharedPrefixesTest, NobodyLeadsWhoseCodesAreNotStored) {
  const KvLayout layout = LayoutFor({.page_tokens = kQuantGroup}, tiny_.model().config);
  const auto cache = PagedKvCache::Create(tiny_.backend(), layout, 8);
  ASSERT_TRUE(cache.ok()) << cache.status();
  MemoryCodeStore store(1 << 20);
  PrefillEntry leader;
  PrefillEntry follower;
  for (PrefillEntry* entry : {&leader, &follower}) {
    const auto job = std::make_shared<FakeJob>(TestTokens(2 * kQuantGroup));
    job->mutable_input().plan = tiny_.Plan(Codec::kInt4);
    job->Share(kQuantGroup);
    entry->job = job;
  }
  for (const std::int64_t chunk_tokens : {kQuantGroup, kQuantGroup / 2}) {
    const SharedPrefixes shared(**cache, &store, true, chunk_tokens);
    EXPECT_EQ(shared.Stores(leader.job->input()), chunk_tokens == kQuantGroup);
    EXPECT_EQ(shared.Computes(leader, follower), chunk_tokens == kQuantGroup);
  }
}

TEST_F(SharedPrefixesTest, AShortPromptIsNotStuckBehindALongOne) {
  Create({.chunk_tokens = 32, .kv_tokens = 2048});
  Gate gate(tiny_.backend(), 0);
  const auto slow = Submit(TestTokens(500, 5));
  gate.WaitReached();
  const auto quick = Submit(TestTokens(30, 6));
  gate.Open();
  ExpectRight(*quick);
  EXPECT_FALSE(slow->complete());
  ExpectRight(*slow);
}

}  // namespace
}  // namespace scd
