// Blocks that one request made and others take over.
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
using ::testing::HasSubstr;
using testing::RecordingObserver;
using testing::Sharing;
using testing::SomePrompt;
using testing::StagedRequest;

// `common` tokens that all have, then `own` that depend on the salt.
std::vector<std::int32_t> Prompt(std::int32_t common, std::int32_t own, std::int32_t salt) {
  std::vector<std::int32_t> tokens = SomePrompt(common, 40);
  for (std::int32_t i = 0; i < own; ++i) tokens.push_back((salt + 3 * i) % 50);
  return tokens;
}

class EngineSharingTest : public EngineTest {
 protected:
  // Rebuilds what of a staged request is not there yet, at once.
  void RebuildAtOnce(Engine& engine, RecordingObserver& observer, const EngineRequest& request) {
    observer.admitted_hook = [this, &engine, request](EngineRequestId id,
                                                      const std::shared_ptr<Sequence>& sequence) {
      const std::int64_t known = sequence->valid_length();
      rebuilt_ += std::max<std::int64_t>(0, request.staged_end - std::max(request.staged_begin, known));
      if (known < request.staged_end) {
        rig_.Rebuild(request.prompt, std::max(request.staged_begin, known), request.staged_end, *sequence);
      }
      engine.Staged(id, request.staged_end);
    };
  }

  std::int64_t rebuilt_ = 0;
};

TEST_P(EngineSharingTest, ASecondNativeRequestComputesOnlyWhatIsNew) {
  const auto engine = rig_.NewEngine({.num_pages = 40, .page_tokens = 8, .prefill_chunk_tokens = 10});
  struct Case {
    std::vector<std::int32_t> prompt;
    std::int64_t cached;
  };
  for (const Case& c : {Case{Prompt(29, 5, 1), 0}, Case{Prompt(29, 5, 1), 32}, Case{Prompt(29, 9, 2), 24},
                        Case{Prompt(24, 0, 0), 23},  // its last position lies in a known block
                        Case{Prompt(25, 0, 0), 24}, Case{SomePrompt(30, 3), 0}}) {
    const auto observer = NewObserver();
    Submit(*engine, Sharing(GenerateRequest(c.prompt, 12)), observer);
    observer->WaitDone();
    EXPECT_EQ(observer->tokens(), rig_.Greedy(c.prompt, 12));
    EXPECT_EQ(observer->timings().num_cached, c.cached);
    EXPECT_EQ(observer->timings().num_computed, static_cast<std::int64_t>(c.prompt.size()) - c.cached);
  }
  // A request without keys takes nothing over.
  const auto observer = NewObserver();
  Submit(*engine, GenerateRequest(Prompt(29, 5, 1), 12), observer);
  observer->WaitDone();
  EXPECT_EQ(observer->timings().num_cached, 0);
  ExpectIdle(*engine);
}

TEST_P(EngineSharingTest, AStagedRequestStagesOnlyWhatIsNew) {
  const auto engine = rig_.NewEngine({.num_pages = 40, .page_tokens = 8, .prefill_chunk_tokens = 4});
  struct Case {
    std::vector<std::int32_t> prompt;
    std::int64_t rebuilt;
    std::int64_t cached;
  };
  // Head 1, tail 2: codes for [1, size - 3).
  for (const Case& c : {Case{Prompt(30, 7, 1), 33, 0}, Case{Prompt(30, 7, 1), 2, 32},
                        Case{Prompt(30, 9, 2), 12, 24}, Case{Prompt(27, 0, 0), 0, 24}}) {
    const EngineRequest request = Sharing(StagedRequest(c.prompt, 10, 1, 2));
    const auto observer = NewObserver();
    RebuildAtOnce(*engine, *observer, request);
    rebuilt_ = 0;
    Submit(*engine, request, observer);
    observer->WaitDone();
    EXPECT_EQ(observer->tokens(), rig_.Greedy(c.prompt, 10));
    EXPECT_EQ(rebuilt_, c.rebuilt);
    EXPECT_EQ(observer->timings().num_cached, c.cached);
    EXPECT_EQ(observer->timings().num_computed + c.rebuilt + c.cached,
              static_cast<std::int64_t>(c.prompt.size()));
  }
  // Native blocks have other keys.
  const auto native = NewObserver();
  Submit(*engine, Sharing(GenerateRequest(Prompt(30, 7, 1), 5)), native);
  native->WaitDone();
  EXPECT_EQ(native->timings().num_cached, 0);
  ExpectIdle(*engine);
}

TEST_P(EngineSharingTest, WhatWasNotStagedIsNotMadeKnown) {
  const auto engine = rig_.NewEngine({.num_pages = 40, .page_tokens = 8});
  const EngineRequest request = Sharing(StagedRequest(Prompt(40, 0, 0), 5, 1, 2));
  const auto cached = [&](const std::function<void(EngineRequestId, Sequence&)>& stage) {
    const auto observer = NewObserver();
    observer->admitted_hook = [&](EngineRequestId id, const std::shared_ptr<Sequence>& sequence) {
      stage(id, *sequence);
    };
    Submit(*engine, request, observer);
    observer->WaitDone();
    EXPECT_EQ(observer->tokens(), rig_.Greedy(request.prompt, 5));
    return observer->timings().num_cached;
  };
  // Given up after something wrong was written, then nothing written, then only a part.
  EXPECT_EQ(cached([&](EngineRequestId id, Sequence& sequence) {
              rig_.Rebuild(SomePrompt(40, 9), 1, 37, sequence);
              engine->ComputeNatively(id);
            }),
            0);
  EXPECT_EQ(cached([&](EngineRequestId id, Sequence&) { engine->ComputeNatively(id); }), 0);
  EXPECT_EQ(cached([&](EngineRequestId id, Sequence& sequence) {
              rig_.Rebuild(request.prompt, 1, 20, sequence);
              engine->Staged(id, 20);
            }),
            0);
  EXPECT_EQ(cached([&](EngineRequestId id, Sequence&) { engine->ComputeNatively(id); }), 16);
  EXPECT_EQ(engine->stats().pages_indexed, 2);
  ExpectIdle(*engine);
}

TEST_P(EngineSharingTest, ScoresOverKnownBlocksAreTheSame) {
  const auto engine = rig_.NewEngine({.num_pages = 40, .page_tokens = 8});
  EngineRequest request = GenerateRequest(Prompt(32, 0, 0), 0);
  request.score = true;
  request.continuation = SomePrompt(9, 5);
  auto all = request.prompt;
  all.insert(all.end(), request.continuation.begin(), request.continuation.end());
  for (const std::int64_t cached : {0, 31}) {
    const auto observer = NewObserver();
    Submit(*engine, Sharing(request), observer);
    observer->WaitDone();
    ExpectRows(observer->logits(), rig_.Logits(all), 31);
    EXPECT_EQ(observer->timings().num_cached, cached);
  }
  ExpectIdle(*engine);
}

TEST_P(EngineSharingTest, FollowersWaitForTheBlocksOfTheFirst) {
  const auto engine = rig_.NewEngine({.num_pages = 60, .page_tokens = 8, .prefill_chunk_tokens = 4});
  const EngineRequest leader = Sharing(StagedRequest(Prompt(40, 3, 1), 6, 1, 2));
  const auto first = NewObserver();
  std::shared_ptr<Sequence> sequence;
  absl::Notification admitted;
  first->admitted_hook = [&](EngineRequestId, std::shared_ptr<Sequence> s) {
    sequence = std::move(s);
    admitted.Notify();
  };
  const Id id = Submit(*engine, leader, first);
  admitted.WaitForNotification();
  rebuilt_ = 0;
  std::vector<EngineRequest> requests;
  std::vector<std::shared_ptr<RecordingObserver>> followers;
  for (std::int32_t i = 0; i < 7; ++i) {
    requests.push_back(Sharing(StagedRequest(Prompt(40, 3, 10 + i), 6, 1, 2)));
    followers.push_back(NewObserver());
    RebuildAtOnce(*engine, *followers.back(), requests.back());
    Submit(*engine, requests.back(), followers.back());
  }
  // One with nothing in common does not wait, nor does one without keys.
  const auto stranger = NewObserver();
  Submit(*engine, Sharing(GenerateRequest(SomePrompt(20, 5), 4)), stranger);
  stranger->WaitDone();
  for (const auto& follower : followers) EXPECT_FALSE(follower->admitted());

  rig_.Rebuild(leader.prompt, leader.staged_begin, leader.staged_end, *sequence);
  sequence.reset();
  engine->Staged(id, leader.staged_end);
  first->WaitDone();
  EXPECT_EQ(first->tokens(), rig_.Greedy(leader.prompt, 6));
  for (std::size_t i = 0; i < followers.size(); ++i) {
    followers[i]->WaitDone();
    EXPECT_EQ(followers[i]->timings().num_cached, 40);
    EXPECT_EQ(followers[i]->tokens(), rig_.Greedy(requests[i].prompt, 6));
  }
  EXPECT_EQ(rebuilt_, 0);  // codes end at position 40
  ExpectIdle(*engine);
}

TEST_P(EngineSharingTest, NativeFollowersTakeEveryBlockOver) {
  const auto engine = rig_.NewEngine({.num_pages = 60, .page_tokens = 8, .prefill_chunk_tokens = 4});
  std::vector<std::shared_ptr<RecordingObserver>> observers;
  std::int64_t computed = 0;
  std::vector<std::vector<std::int32_t>> prompts;
  for (std::int32_t i = 0; i < 8; ++i) {
    prompts.push_back(Prompt(40, 3, 10 + i));
    observers.push_back(NewObserver());
    Submit(*engine, Sharing(GenerateRequest(prompts.back(), 6)), observers.back());
  }
  for (std::size_t i = 0; i < observers.size(); ++i) {
    observers[i]->WaitDone();
    EXPECT_EQ(observers[i]->tokens(), rig_.Greedy(prompts[i], 6));
    computed += observers[i]->timings().num_computed;
  }
  EXPECT_EQ(computed, 40 + 8 * 3);
  ExpectIdle(*engine);
}

TEST_P(EngineSharingTest, AFollowerGoesOnWhereTheFirstFailsOrTakesTooLong) {
  const auto engine = rig_.NewEngine({.num_pages = 60, .page_tokens = 8});
  for (const bool fails : {true, false}) {
    const EngineRequest leader = Sharing(StagedRequest(Prompt(40, 3, fails), 6, 1, 2));
    const auto first = NewObserver();
    absl::Notification admitted;
    first->admitted_hook = [&](EngineRequestId, const std::shared_ptr<Sequence>&) { admitted.Notify(); };
    const Id id = Submit(*engine, leader, first);
    admitted.WaitForNotification();
    EngineRequest request = Sharing(StagedRequest(Prompt(40, 5, 7), 6, 1, 2));
    if (!fails) request.max_wait_for_blocks = std::chrono::milliseconds(30);
    const auto follower = NewObserver();
    absl::Notification follower_in;
    follower->admitted_hook = [&](EngineRequestId follower_id, const std::shared_ptr<Sequence>& sequence) {
      EXPECT_EQ(sequence->valid_length(), 0);
      engine->ComputeNatively(follower_id);
      follower_in.Notify();
    };
    const auto start = std::chrono::steady_clock::now();
    Submit(*engine, request, follower);
    if (fails) {
      EXPECT_FALSE(follower_in.WaitForNotificationWithTimeout(absl::Milliseconds(20)));
      engine->Fail(id, absl::UnavailableError("lost"));
    }
    follower->WaitDone();
    EXPECT_EQ(follower->tokens(), rig_.Greedy(request.prompt, 6));
    if (!fails) {
      EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(30));
      engine->Fail(id, absl::CancelledError());
    }
    first->WaitDone();
  }
  EXPECT_EQ(engine->stats().pages_indexed, 0);
  ExpectIdle(*engine);
}

TEST_P(EngineSharingTest, RefusesKeysBeyondWhatIsShared) {
  const auto engine = rig_.NewEngine({.num_pages = 40, .page_tokens = 8});
  EngineRequest request = StagedRequest(Prompt(24, 0, 0), 5, 1, 2);
  request.block_keys = Sharing(GenerateRequest(request.prompt, 5)).block_keys;  // three blocks, 21 positions
  const auto id = engine->Submit(request, NewObserver());
  EXPECT_EQ(id.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(id.status().message()), HasSubstr("block_keys has 3 keys"));
}

TEST_P(EngineSharingTest, RandomStormGivesTheRightAnswers) {
  const auto engine = rig_.NewEngine({.num_pages = 16,
                                      .page_tokens = 8,
                                      .swap_bytes = 1 << 20,
                                      .max_batch_sequences = 3,
                                      .prefill_chunk_tokens = 7,
                                      .max_queued_requests = 64});
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::vector<std::int32_t>> expected;
  for (std::int32_t i = 0; i < 6; ++i) {
    prompts.push_back(Prompt(10 + 8 * (i % 3), 1 + i, i));
    expected.push_back(rig_.Greedy(prompts.back(), 12));
  }
  std::vector<std::thread> clients;
  for (unsigned c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      std::mt19937 random(c);
      for (int i = 0; i < 30; ++i) {
        const std::size_t which = random() % prompts.size();
        const auto observer = NewObserver();
        const bool staged = random() % 2 == 0;
        const EngineRequest request =
            Sharing(staged ? StagedRequest(prompts[which], 12, 1, 2) : GenerateRequest(prompts[which], 12));
        const unsigned what = random() % 4;
        observer->admitted_hook = [&](EngineRequestId id, const std::shared_ptr<Sequence>& sequence) {
          if (!staged) return;
          const std::int64_t from = std::max(request.staged_begin, sequence->valid_length());
          if (what == 0) return engine->ComputeNatively(id);
          if (what == 1) return engine->Fail(id, absl::CancelledError("storm"));
          if (from < request.staged_end) rig_.Rebuild(prompts[which], from, request.staged_end, *sequence);
          engine->Staged(id, request.staged_end);
        };
        Submit(*engine, request, observer);
        observer->WaitDone();
        if (staged && what == 1) continue;
        EXPECT_TRUE(observer->status().ok()) << observer->status();
        EXPECT_EQ(observer->tokens(), expected[which]);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(engine->stats().pages_evicted, 0);
  ExpectIdle(*engine);
}

INSTANTIATE_TEST_SUITE_P(Backends, EngineSharingTest, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace scd
