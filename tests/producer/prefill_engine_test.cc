#include "producer/prefill_engine.h"

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/producer/fake_job.h"

namespace scd {
namespace {

using testing::FakeJob;
using ::testing::HasSubstr;

class PrefillEngineTest : public ::testing::Test {
 protected:
  void Create(const PrefillEngineOptions& options) {
    auto engine = PrefillEngine::Create(tiny_.transformer(), options, &store_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  std::shared_ptr<FakeJob> Submit(std::int64_t num_tokens) {
    auto job = std::make_shared<FakeJob>(testing::TestTokens(num_tokens));
    EXPECT_TRUE(engine_->Submit(job).ok());
    return job;
  }

  testing::TinyProducer& tiny_ = testing::SharedTinyProducer();
  MemoryCodeStore store_{1 << 24};
  std::unique_ptr<PrefillEngine> engine_;
};

TEST_F(PrefillEngineTest, CodesDoNotDependOnChunks) {
  const std::vector<std::int32_t> tokens = testing::TestTokens(75);
  for (const std::int64_t first_token : {0, 1, 20, 74}) {
    const testing::CodesByColumn expected =
        testing::ExpectedCodes(tiny_.bundle(0), tiny_.Plan(), tokens, first_token);
    for (const std::int64_t chunk_tokens : {1, 16, 64, 75, 256}) {
      Create({.chunk_tokens = chunk_tokens, .kv_tokens = 128});
      const auto job = std::make_shared<FakeJob>(tokens, first_token);
      ASSERT_TRUE(engine_->Submit(job).ok());
      ASSERT_TRUE(job->WaitComplete().ok()) << job->WaitComplete();
      EXPECT_TRUE(job->CheckCodes().ok()) << job->CheckCodes();
      EXPECT_TRUE(job->codes() == expected) << "chunks of " << chunk_tokens << " from " << first_token;
    }
  }
}

TEST_F(PrefillEngineTest, LayerZeroIsOutBeforeLayerOneRuns) {
  Create({.chunk_tokens = 256, .kv_tokens = 128});
  testing::Gate gate(tiny_.backend(), 0);
  const auto job = Submit(60);
  gate.WaitReached();  // layer 0's attention has not run
  EXPECT_EQ(job->codes().size(), 2u);
  EXPECT_TRUE(job->codes().contains({0, CodeKind::kK}));
  EXPECT_FALSE(job->complete());
  gate.Open();
  EXPECT_TRUE(job->WaitComplete().ok());
}

TEST_F(PrefillEngineTest, TimesAndPagesAreAccountedFor) {
  Create({.chunk_tokens = 16, .kv_tokens = 128});
  const auto job = Submit(60);
  ASSERT_TRUE(job->WaitComplete().ok());
  EXPECT_GT(job->report().prefill_ms, 0);
  EXPECT_GT(job->report().encode_ms, 0);
  EXPECT_LT(job->report().encode_ms, job->report().prefill_ms);
  EXPECT_GE(job->report().queue_ms, 0);
  EXPECT_EQ(engine_->stats().pages_total, 4);
  EXPECT_EQ(engine_->stats().pages_used, 0);
  EXPECT_EQ(engine_->stats().num_active, 0);
}

TEST_F(PrefillEngineTest, TheQueueIsBoundedAndItsPlacesComeBack) {
  Create({.chunk_tokens = 16, .kv_tokens = 64, .max_queued_requests = 2});
  testing::Gate gate(tiny_.backend(), 0);
  const auto running = Submit(60);
  gate.WaitReached();
  const auto second = Submit(60);
  const auto third = Submit(60);
  const auto refused = std::make_shared<FakeJob>(testing::TestTokens(60));
  const absl::Status status = engine_->Submit(refused);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 requests wait and 1 run"));
  EXPECT_EQ(engine_->stats().num_queued, 2);

  // While the engine is held: a cancelled job leaves the queue at once.
  engine_->Cancel(*second);
  EXPECT_TRUE(second->complete());
  EXPECT_EQ(second->WaitComplete().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine_->stats().num_queued, 1);
  const auto fourth = Submit(60);
  gate.Open();
  for (const auto& job : {running, third, fourth}) EXPECT_TRUE(job->WaitComplete().ok());
  EXPECT_FALSE(refused->complete());
}

TEST_F(PrefillEngineTest, WithoutAQueueOneRequestRuns) {
  Create({.chunk_tokens = 16, .kv_tokens = 64, .max_queued_requests = 0});
  testing::Gate gate(tiny_.backend(), 0);
  const auto job = Submit(60);
  gate.WaitReached();
  EXPECT_EQ(engine_->Submit(std::make_shared<FakeJob>(testing::TestTokens(60))).code(),
            absl::StatusCode::kResourceExhausted);
  gate.Open();
  EXPECT_TRUE(job->WaitComplete().ok());
}

TEST_F(PrefillEngineTest, CancelStopsAForwardPassWithinOneLayer) {
  Create({.chunk_tokens = 256, .kv_tokens = 512});
  testing::Gate gate(tiny_.backend(), 1);
  const auto job = Submit(500);
  gate.WaitReached();
  engine_->Cancel(*job);
  const std::int64_t calls = gate.num_calls();
  gate.Open();
  EXPECT_EQ(job->WaitComplete().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(gate.num_calls(), calls);
  EXPECT_EQ(engine_->stats().pages_used, 0);
  engine_->Cancel(*job);  // it is gone: ignored
}

TEST_F(PrefillEngineTest, AReaderWithoutRoomPausesOnlyItself) {
  Create({.chunk_tokens = 16, .kv_tokens = 512});
  const auto slow = std::make_shared<FakeJob>(testing::TestTokens(100));
  slow->SetRoom(false);
  ASSERT_TRUE(engine_->Submit(slow).ok());
  const auto quick = Submit(100);
  EXPECT_TRUE(quick->WaitComplete().ok());
  EXPECT_EQ(slow->num_codes(), 0);
  EXPECT_EQ(engine_->stats().num_active, 1);
  slow->SetRoom(true);
  engine_->Wake();
  EXPECT_TRUE(slow->WaitComplete().ok());
  EXPECT_TRUE(slow->codes() == quick->codes());
}

TEST_F(PrefillEngineTest, APausedJobCanBeCancelled) {
  Create({.chunk_tokens = 16, .kv_tokens = 512});
  const auto job = std::make_shared<FakeJob>(testing::TestTokens(100));
  job->SetRoom(false);
  ASSERT_TRUE(engine_->Submit(job).ok());
  engine_->Cancel(*job);
  EXPECT_EQ(job->WaitComplete().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine_->stats().pages_used, 0);
}

TEST_F(PrefillEngineTest, APromptThatCannotFitIsRefused) {
  Create({.chunk_tokens = 16, .kv_tokens = 64});
  EXPECT_EQ(engine_->Submit(std::make_shared<FakeJob>(testing::TestTokens(65))).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(PrefillEngineTest, TheEndCompletesEveryJob) {
  Create({.chunk_tokens = 16, .kv_tokens = 64});
  std::shared_ptr<FakeJob> running;
  std::shared_ptr<FakeJob> queued;
  {
    testing::Gate gate(tiny_.backend(), 0);
    running = Submit(60);
    gate.WaitReached();
    queued = Submit(60);
    // The end begins while the forward pass is held, and completes once it goes on.
    PrefillEngine* const engine = engine_.get();
    std::jthread end([this] { engine_.reset(); });
    EXPECT_TRUE(testing::Eventually([engine] {
      return absl::IsUnavailable(engine->Submit(std::make_shared<FakeJob>(testing::TestTokens(60))));
    }));
    gate.Open();
  }
  EXPECT_EQ(running->WaitComplete().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(queued->WaitComplete().code(), absl::StatusCode::kUnavailable);
}

TEST_F(PrefillEngineTest, WholeBlocksGoToTheStore) {
  Create({.chunk_tokens = 24, .kv_tokens = 128, .block_tokens = 16});
  auto job = std::make_shared<FakeJob>(testing::TestTokens(75));
  job->Share(16);
  const PrefillInput& input = job->input();
  ASSERT_EQ(input.code_keys.size(), 4u);
  ASSERT_TRUE(engine_->Submit(job).ok());
  ASSERT_TRUE(job->WaitComplete().ok());
  const auto blocks = store_.FindPrefix(input.code_keys);
  ASSERT_EQ(blocks.size(), 4u);
  const std::vector<CodeColumn> columns = PlanColumns(input.plan);
  const testing::CodesByColumn codes = job->codes();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::string stored;
    for (const auto& block : blocks) stored += std::string(block->payloads[i]);
    const std::string& sent = codes.at({columns[i].layer, columns[i].kind});
    EXPECT_EQ(stored, sent.substr(0, stored.size()));
    EXPECT_EQ(stored.size() / 63, sent.size() / 74);
  }

  const std::int64_t stored_bytes = store_.size_bytes();
  auto unnamed = std::make_shared<FakeJob>(testing::TestTokens(75, 2));  // without keys nothing is stored
  ASSERT_TRUE(engine_->Submit(unnamed).ok());
  ASSERT_TRUE(unnamed->WaitComplete().ok());
  EXPECT_EQ(store_.size_bytes(), stored_bytes);
}

TEST_F(PrefillEngineTest, EncodersAreMadeForManyPlans) {
  Create({.chunk_tokens = 64, .kv_tokens = 128, .max_cached_plans = 1});
  for (int round = 0; round < 2; ++round) {
    for (const Codec codec : {Codec::kBF16, Codec::kF32}) {
      const auto job = std::make_shared<FakeJob>(testing::TestTokens(40));
      job->mutable_input().plan = tiny_.Plan(codec);
      ASSERT_TRUE(engine_->Submit(job).ok());
      ASSERT_TRUE(job->WaitComplete().ok());
      EXPECT_EQ(job->codes(),
                testing::ExpectedCodes(tiny_.bundle(0), tiny_.Plan(codec), job->input().token_ids, 1));
    }
  }
}

}  // namespace
}  // namespace scd
