// Requests that end before their time, an engine that is busy, and one that shuts down.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "absl/synchronization/notification.h"
#include "consumer/engine.h"
#include "gmock/gmock.h"
#include "tests/consumer/engine_rig.h"

namespace scd {
namespace {

using testing::EngineTest;
using testing::GenerateRequest;
using ::testing::IsEmpty;
using testing::RecordingObserver;
using testing::SomePrompt;
using testing::StagedRequest;

// Holds the engine's thread inside the first token of a request, so that what comes meanwhile meets a busy
// engine.
class EngineCancelTest : public EngineTest {
 protected:
  void Start(const EngineOptions& options) {
    engine_ = rig_.NewEngine(options);
    busy_->token_hook = [this](const SampledToken&) {
      if (!held_.HasBeenNotified()) {
        held_.Notify();
        release_.WaitForNotification();
      }
      return true;
    };
    busy_id_ = Submit(*engine_, GenerateRequest(busy_prompt_, 10), busy_);
    held_.WaitForNotification();
  }
  void TearDown() override {
    if (!release_.HasBeenNotified()) release_.Notify();
  }
  void ExpectBusyUnharmed() {
    busy_->WaitDone();
    EXPECT_TRUE(busy_->status().ok()) << busy_->status();
    EXPECT_EQ(busy_->tokens(), rig_.Greedy(busy_prompt_, 10));
  }

  absl::Notification held_;
  absl::Notification release_;
  const std::vector<std::int32_t> busy_prompt_ = SomePrompt(14, 7);  // 3 pages of 8 with its output
  const std::shared_ptr<RecordingObserver> busy_ = NewObserver();
  Id busy_id_ = 0;
  std::unique_ptr<Engine> engine_;
};

TEST_P(EngineCancelTest, QueuedRequestsAreBoundedWaitForPagesAndCanBeCancelled) {
  Start({.num_pages = 5, .page_tokens = 8, .max_queued_requests = 3});
  // Needs 4 pages where 2 are free, so the two behind it wait too, though they would fit.
  const auto large = NewObserver();
  const auto small = NewObserver();
  const auto cancelled = NewObserver();
  Submit(*engine_, GenerateRequest(SomePrompt(20, 1), 10), large);
  Submit(*engine_, GenerateRequest(SomePrompt(5, 2), 3), small);
  const Id id = Submit(*engine_, GenerateRequest(SomePrompt(5, 3), 3), cancelled);
  const auto refused = engine_->Submit(GenerateRequest(SomePrompt(5, 4), 3), NewObserver());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(engine_->stats().requests_queued, 3);
  EXPECT_EQ(engine_->stats().requests_running, 1);
  engine_->Fail(id, absl::DeadlineExceededError("too late"));
  release_.Notify();

  cancelled->WaitDone();
  EXPECT_EQ(cancelled->status(), absl::DeadlineExceededError("too late"));
  EXPECT_FALSE(cancelled->admitted());
  ExpectBusyUnharmed();
  large->WaitDone();
  small->WaitDone();
  EXPECT_EQ(large->tokens(), rig_.Greedy(SomePrompt(20, 1), 10));
  EXPECT_EQ(small->tokens(), rig_.Greedy(SomePrompt(5, 2), 3));
  EXPECT_GT(large->timings().queue_ms, 0.0);
  ExpectIdle(*engine_);
}

TEST_P(EngineCancelTest, DecodingStagingAndNativeRequestsCanBeCancelledWithoutHarmToOthers) {
  Start({.num_pages = 60, .page_tokens = 8, .prefill_chunk_tokens = 3});
  const auto decoding = NewObserver();
  decoding->token_hook = [&](const SampledToken&) {
    if (decoding->tokens().size() == 4) engine_->Fail(busy_id_ + 1, absl::CancelledError("client went away"));
    return true;
  };
  ASSERT_EQ(Submit(*engine_, GenerateRequest(SomePrompt(9, 1), 100), decoding), busy_id_ + 1);
  const auto staging = NewObserver();
  staging->admitted_hook = [&](EngineRequestId id, const std::shared_ptr<Sequence>&) {
    engine_->Fail(id, absl::UnavailableError("no producer"));
  };
  Submit(*engine_, StagedRequest(SomePrompt(30, 2), 5, 1, 4), staging);
  const auto native = NewObserver();
  native->admitted_hook = [&](EngineRequestId id, const std::shared_ptr<Sequence>&) {
    engine_->Fail(id, absl::OkStatus());  // no reason given
  };
  Submit(*engine_, GenerateRequest(SomePrompt(60, 3), 5), native);
  const auto other = NewObserver();
  Submit(*engine_, GenerateRequest(SomePrompt(25, 4), 12), other);
  engine_->Fail(9999, absl::InternalError("nobody"));
  release_.Notify();

  decoding->WaitDone();
  EXPECT_EQ(decoding->status(), absl::CancelledError("client went away"));
  EXPECT_EQ(decoding->tokens().size(), 4u);
  staging->WaitDone();
  EXPECT_EQ(staging->status(), absl::UnavailableError("no producer"));
  native->WaitDone();
  EXPECT_EQ(native->status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(native->tokens(), IsEmpty());
  ExpectBusyUnharmed();
  other->WaitDone();
  EXPECT_EQ(other->tokens(), rig_.Greedy(SomePrompt(25, 4), 12));
  ExpectIdle(*engine_);
  engine_->Fail(busy_id_, absl::InternalError("long gone"));
  EXPECT_EQ(Generate(*engine_, GenerateRequest(SomePrompt(9, 1), 5)), rig_.Greedy(SomePrompt(9, 1), 5));
}

TEST_P(EngineCancelTest, AWriterKeepsItsPagesAndTheQueueHearsWhenItLetsGo) {
  Start({.num_pages = 5, .page_tokens = 8});
  release_.Notify();
  ExpectBusyUnharmed();
  std::shared_ptr<Sequence> share;
  absl::Notification has_share;
  const auto staging = NewObserver();
  staging->admitted_hook = [&](EngineRequestId, std::shared_ptr<Sequence> sequence) {
    share = std::move(sequence);
    has_share.Notify();
  };
  const Id id = Submit(*engine_, StagedRequest(SomePrompt(30, 2), 5, 0, 4), staging);
  has_share.WaitForNotification();
  engine_->Fail(id, absl::CancelledError());
  staging->WaitDone();
  EXPECT_EQ(engine_->stats().pages_used, 5);  // somebody may still write into them

  const auto waiting = NewObserver();
  Submit(*engine_, GenerateRequest(SomePrompt(30, 4), 4), waiting);
  EXPECT_FALSE(waiting->admitted());
  share.reset();
  waiting->WaitDone();
  EXPECT_EQ(waiting->tokens(), rig_.Greedy(SomePrompt(30, 4), 4));
  ExpectIdle(*engine_);
}

TEST_P(EngineCancelTest, ShutdownAnswersEverybodyOnce) {
  Start({.num_pages = 12, .page_tokens = 8});
  const auto staging = NewObserver();
  const auto decoding = NewObserver();
  const auto queued = NewObserver();
  absl::Status late = absl::OkStatus();
  Engine* const engine = engine_.get();
  staging->done_hook = [&] { late = engine->Submit(GenerateRequest({1}, 1), queued).status(); };
  Submit(*engine_, StagedRequest(SomePrompt(30, 2), 5, 1, 4), staging);
  Submit(*engine_, GenerateRequest(SomePrompt(20, 3), 12), decoding);
  Submit(*engine_, GenerateRequest(SomePrompt(60, 4), 12), queued);
  std::thread releaser([this] { release_.Notify(); });
  engine_.reset();
  releaser.join();
  for (const auto& observer : {busy_, staging, decoding, queued}) EXPECT_TRUE(observer->done());
  EXPECT_EQ(staging->status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(queued->status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(late.code(), absl::StatusCode::kUnavailable);
}

TEST_P(EngineCancelTest, WhileAPassRunsOthersAreAdmittedAndCancelledBetweenItsLayers) {
  // Each admission submits the next request, and the inbox is looked at once before the pass of `native` and
  // once in each of its three layers: so `second` is admitted in layer 0, where it ends `first`, and `third`
  // in layer 1, where it ends `native` itself.
  const auto engine = rig_.NewEngine();
  const auto native = NewObserver();
  const auto first = NewObserver();
  const auto second = NewObserver();
  const auto third = NewObserver();
  Id native_id = 0;
  Id first_id = 0;
  bool native_was_done = true;
  native->admitted_hook = [&](EngineRequestId id, const std::shared_ptr<Sequence>&) {
    native_id = id;
    Submit(*engine, StagedRequest(SomePrompt(20, 2), 5, 0, 4), first);
  };
  first->admitted_hook = [&](EngineRequestId id, const std::shared_ptr<Sequence>&) {
    first_id = id;
    Submit(*engine, StagedRequest(SomePrompt(20, 3), 5, 0, 4), second);
  };
  second->admitted_hook = [&](EngineRequestId, const std::shared_ptr<Sequence>&) {
    engine->Fail(first_id, absl::AbortedError("first"));
    Submit(*engine, StagedRequest(SomePrompt(20, 4), 5, 0, 4), third);
  };
  first->done_hook = [&] { native_was_done = native->done(); };
  third->admitted_hook = [&](EngineRequestId id, const std::shared_ptr<Sequence>&) {
    engine->Fail(native_id, absl::AbortedError("native"));
    engine->ComputeNatively(id);
  };
  Submit(*engine, GenerateRequest(SomePrompt(30, 1), 5), native);
  third->WaitDone();
  native->WaitDone();
  first->WaitDone();
  EXPECT_EQ(first->status(), absl::AbortedError("first"));
  EXPECT_FALSE(native_was_done);
  EXPECT_EQ(native->status(), absl::AbortedError("native"));
  EXPECT_EQ(native->timings().num_computed, 0);  // its pass did not come to its end
  EXPECT_EQ(third->tokens(), rig_.Greedy(SomePrompt(20, 4), 5));
}

TEST_P(EngineCancelTest, RandomStormLeavesNothingBehind) {
  // Submissions, cancellations, staging and giving up from several threads at once.
  const auto engine = rig_.NewEngine({.num_pages = 20,
                                      .page_tokens = 8,
                                      .swap_bytes = 1 << 20,
                                      .max_batch_sequences = 3,
                                      .prefill_chunk_tokens = 7,
                                      .max_queued_requests = 8});
  std::vector<std::thread> clients;
  std::atomic<int> finished{0};
  std::atomic<int> refused{0};
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      std::mt19937 random(static_cast<std::uint32_t>(c));
      for (int i = 0; i < 25; ++i) {
        const auto prompt = SomePrompt(static_cast<std::int32_t>(8 + random() % 40), c * 100 + i);
        const auto observer = NewObserver();
        EngineRequest request = StagedRequest(prompt, 1 + static_cast<std::int64_t>(random() % 12), 1,
                                              static_cast<std::int64_t>(random() % 5));
        const std::uint32_t what = random() % 5;
        observer->admitted_hook = [&](EngineRequestId id, const std::shared_ptr<Sequence>& sequence) {
          if (what == 0) rig_.Rebuild(prompt, request.staged_begin, request.staged_end, *sequence);
          if (what == 0) engine->Staged(id, request.staged_end);
          if (what == 1) engine->ComputeNatively(id);
        };
        const auto id = engine->Submit(request, observer);
        if (!id.ok()) {
          EXPECT_EQ(id.status().code(), absl::StatusCode::kResourceExhausted);
          ++refused;
          continue;
        }
        if (what >= 2) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
        if (what >= 2) engine->Fail(*id, absl::CancelledError("storm"));
        observer->WaitDone();
        if (what < 2) {
          EXPECT_TRUE(observer->status().ok()) << observer->status();
          EXPECT_EQ(static_cast<std::int64_t>(observer->tokens().size()), request.max_tokens);
        }
        ++finished;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(finished + refused, 100);
  EXPECT_GT(finished, 50);
  ExpectIdle(*engine);
}

INSTANTIATE_TEST_SUITE_P(Backends, EngineCancelTest, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace scd
