// More requests than pages: who gives pages up, and that nobody's answer changes.
#include <thread>

#include "absl/synchronization/notification.h"
#include "consumer/engine.h"
#include "gmock/gmock.h"
#include "tests/consumer/engine_rig.h"

namespace scd {
namespace {

using testing::EngineTest;
using testing::GenerateRequest;
using testing::RecordingObserver;
using testing::SomePrompt;
using testing::StagedRequest;

class EnginePreemptionTest : public EngineTest {
 protected:
  using Observers = std::vector<std::shared_ptr<RecordingObserver>>;

  // Sends all of them while the engine is held in the first token of the first, so that their order is known.
  Observers SubmitTogether(Engine& engine, const std::vector<EngineRequest>& requests) {
    Observers observers;
    absl::Notification all_there;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      observers.push_back(NewObserver());
      if (i == 0) {
        observers[0]->token_hook = [&all_there](const SampledToken&) {
          all_there.WaitForNotification();
          return true;
        };
      }
      Submit(engine, requests[i], observers.back());
    }
    all_there.Notify();
    for (const auto& observer : observers) observer->WaitDone();
    return observers;
  }
};

TEST_P(EnginePreemptionTest, EveryAnswerIsTheSameAsAlone) {
  std::vector<EngineRequest> requests;
  for (std::int32_t i = 0; i < 12; ++i) {
    EngineRequest request = GenerateRequest(SomePrompt(4 + 3 * (i % 5), i), 30 + i);
    request.sampling.temperature = i % 2 == 0 ? 1.0f : 0.0f;
    request.sampling.top_p = 0.9f;
    request.sampling.seed = static_cast<std::uint64_t>(i);
    requests.push_back(request);
  }
  std::vector<std::vector<std::int32_t>> alone;
  {
    const auto engine = rig_.NewEngine({.num_pages = 40, .page_tokens = 8});
    for (const EngineRequest& request : requests) alone.push_back(Generate(*engine, request));
    EXPECT_EQ(engine->stats().preemptions, 0);
  }
  // Room for two of the longest.
  const auto engine =
      rig_.NewEngine({.num_pages = 14, .page_tokens = 8, .swap_bytes = 1 << 20, .prefill_chunk_tokens = 9});
  const Observers observers = SubmitTogether(*engine, requests);
  for (std::size_t i = 0; i < observers.size(); ++i) {
    EXPECT_TRUE(observers[i]->status().ok()) << observers[i]->status();
    EXPECT_EQ(observers[i]->tokens(), alone[i]) << "request " << i;
    EXPECT_EQ(observers[i]->timings().num_computed, static_cast<std::int64_t>(requests[i].prompt.size()));
  }
  EXPECT_GT(engine->stats().preemptions, 0);
  EXPECT_GT(engine->stats().swapped_bytes, 0);
  EXPECT_EQ(engine->stats().requests_swapped, 0);
  ExpectIdle(*engine);
}

TEST_P(EnginePreemptionTest, PagesOfFewerBitsComeBackAndAreSharedAsTheyAre) {
  for (const DType dtype : {DType::kBF16, DType::kI8}) {
    SCOPED_TRACE(std::string(DTypeName(dtype)));
    std::vector<EngineRequest> requests;
    for (std::int32_t i = 0; i < 6; ++i) {
      requests.push_back(testing::Sharing(GenerateRequest(SomePrompt(17 + 8 * (i % 2), 1), 30)));
    }
    std::vector<std::vector<std::int32_t>> alone;
    {
      const auto engine = rig_.NewEngine({.num_pages = 40, .page_tokens = 8, .kv_dtype = dtype});
      for (EngineRequest request : requests) {
        request.block_keys.clear();
        alone.push_back(Generate(*engine, request));
      }
    }
    const auto engine =
        rig_.NewEngine({.num_pages = 14, .page_tokens = 8, .kv_dtype = dtype, .swap_bytes = 1 << 20});
    const Observers observers = SubmitTogether(*engine, requests);
    std::int64_t cached = 0;
    for (std::size_t i = 0; i < observers.size(); ++i) {
      EXPECT_TRUE(observers[i]->status().ok()) << observers[i]->status();
      EXPECT_EQ(observers[i]->tokens(), alone[i]) << "request " << i;
      cached += observers[i]->timings().num_cached;
    }
    EXPECT_GT(cached, 0);
    EXPECT_GT(engine->stats().preemptions, 0);
    ExpectIdle(*engine);
  }
}

TEST_P(EnginePreemptionTest, WithoutHostMemoryNobodyComesInWhoMightHaveToGo) {
  const auto engine = rig_.NewEngine({.num_pages = 8, .page_tokens = 8, .swap_bytes = 0});
  const std::vector<EngineRequest> requests = {GenerateRequest(SomePrompt(9, 1), 50),
                                               GenerateRequest(SomePrompt(9, 2), 50)};
  const Observers observers = SubmitTogether(*engine, requests);
  for (std::size_t i = 0; i < observers.size(); ++i) {
    EXPECT_TRUE(observers[i]->status().ok()) << observers[i]->status();
    EXPECT_EQ(observers[i]->tokens(), rig_.Greedy(requests[i].prompt, 50));
  }
  EXPECT_EQ(engine->stats().preemptions, 0);
  ExpectIdle(*engine);
}

// Host memory for one at its longest, so that two run together; a third has to wait for one of them to end.
TEST_P(EnginePreemptionTest, NobodyFailsForWantOfHostMemory) {
  const ModelConfig& model = rig_.transformer->config();
  const KvLayout layout{model.num_layers, model.num_kv_heads, model.head_dim, 8, DType::kF32};
  const auto engine =
      rig_.NewEngine({.num_pages = 8, .page_tokens = 8, .swap_bytes = 8 * layout.page_bytes()});
  std::vector<EngineRequest> requests;
  for (std::int32_t i = 0; i < 6; ++i) requests.push_back(GenerateRequest(SomePrompt(9, i), 50));
  const Observers observers = SubmitTogether(*engine, requests);
  for (std::size_t i = 0; i < observers.size(); ++i) {
    EXPECT_TRUE(observers[i]->status().ok()) << observers[i]->status();
    EXPECT_EQ(observers[i]->tokens(), rig_.Greedy(requests[i].prompt, 50));
  }
  EXPECT_GT(engine->stats().preemptions, 0);
  ExpectIdle(*engine);
}

// It cannot be moved away, so it comes in only where the older one can end beside it.
TEST_P(EnginePreemptionTest, OneThatIsBeingRebuiltMakesNobodyWait) {
  for (const std::int64_t num_pages : {8, 13}) {
    const auto engine = rig_.NewEngine({.num_pages = num_pages, .page_tokens = 8, .swap_bytes = 1 << 20});
    const auto older = NewObserver();
    absl::Notification all_there;
    older->token_hook = [&](const SampledToken&) {
      all_there.WaitForNotification();
      return true;
    };
    Submit(*engine, GenerateRequest(SomePrompt(9, 1), 50), older);  // 8 pages in the end
    const auto staged_prompt = SomePrompt(30, 2);
    const EngineRequest staged = StagedRequest(staged_prompt, 20, 1, 20);  // 5 pages at first, 7 in the end
    std::vector<std::shared_ptr<RecordingObserver>> younger;
    std::vector<Id> ids;
    absl::Notification first_in;
    std::shared_ptr<Sequence> sequence;
    for (int i = 0; i < 2; ++i) {
      younger.push_back(NewObserver());
      if (i == 0) {
        younger[0]->admitted_hook = [&](EngineRequestId, std::shared_ptr<Sequence> s) {
          sequence = std::move(s);
          first_in.Notify();
        };
      }
      ids.push_back(Submit(*engine, staged, younger.back()));
    }
    all_there.Notify();
    older->WaitDone();  // nothing was rebuilt yet
    EXPECT_EQ(older->tokens(), rig_.Greedy(SomePrompt(9, 1), 50));
    first_in.WaitForNotification();
    EXPECT_FALSE(younger[1]->admitted());
    rig_.Rebuild(staged_prompt, staged.staged_begin, staged.staged_end, *sequence);
    sequence.reset();
    engine->Staged(ids[0], staged.staged_end);
    younger[0]->WaitDone();
    EXPECT_EQ(younger[0]->tokens(), rig_.Greedy(staged_prompt, 20));
    engine->Fail(ids[1], absl::CancelledError("gone"));
    younger[1]->WaitDone();
    ExpectIdle(*engine);
  }
}

// Its writer holds its pages a little longer: those that grow meanwhile wait, and nobody has to end.
TEST_P(EnginePreemptionTest, PagesOfOneThatHasEndedAreWaitedFor) {
  struct Case {
    std::int32_t ended_prompt;
    std::int32_t others;
    std::int32_t max_tokens;
  };
  // Of 8 pages the writer holds 5 and one request needs all, or it holds 2 and two need 4 each.
  for (const Case& c : {Case{36, 1, 50}, Case{9, 2, 22}}) {
    SCOPED_TRACE(c.others);
    const auto engine = rig_.NewEngine({.num_pages = 8, .page_tokens = 8, .swap_bytes = 0});
    const auto gone = NewObserver();
    std::shared_ptr<Sequence> held;
    absl::Notification in;
    gone->admitted_hook = [&](EngineRequestId, std::shared_ptr<Sequence> sequence) {
      held = std::move(sequence);
      in.Notify();
    };
    const Id gone_id = Submit(*engine, StagedRequest(SomePrompt(c.ended_prompt, 9), 1, 1, 0), gone);
    in.WaitForNotification();
    engine->Fail(gone_id, absl::CancelledError("gone"));
    gone->WaitDone();

    Observers observers;
    for (std::int32_t i = 0; i < c.others; ++i) {
      observers.push_back(NewObserver());
      Submit(*engine, GenerateRequest(SomePrompt(9, i), c.max_tokens), observers.back());
    }
    for (const auto& observer : observers) observer->WaitTokens(16);  // 24 positions: their 3 pages are full
    // The engine does not end the second before it has looked for a fourth page.
    for (int i = 0; i < 2; ++i) {
      const auto passer_by = NewObserver();
      engine->Fail(Submit(*engine, GenerateRequest(SomePrompt(9, 7), 1), passer_by),
                   absl::CancelledError("gone"));
      passer_by->WaitDone();
    }
    for (const auto& observer : observers) EXPECT_FALSE(observer->done());
    held.reset();
    for (std::size_t i = 0; i < observers.size(); ++i) {
      observers[i]->WaitDone();
      EXPECT_TRUE(observers[i]->status().ok()) << observers[i]->status();
      EXPECT_EQ(observers[i]->tokens(), rig_.Greedy(SomePrompt(9, static_cast<std::int32_t>(i)),
                                                    static_cast<std::size_t>(c.max_tokens)));
    }
    EXPECT_EQ(engine->stats().preemptions, 0);
    ExpectIdle(*engine);
  }
}

TEST_P(EnginePreemptionTest, OneThatWasMovedAwayCanBeCancelled) {
  const auto engine = rig_.NewEngine({.num_pages = 8, .page_tokens = 8, .swap_bytes = 1 << 20});
  const auto older = NewObserver();
  const auto younger = NewObserver();
  Id younger_id = 0;
  absl::Notification both_in;
  older->token_hook = [&](const SampledToken&) {
    both_in.WaitForNotification();
    if (engine->stats().requests_swapped == 1) engine->Fail(younger_id, absl::CancelledError("gone"));
    return true;
  };
  Submit(*engine, GenerateRequest(SomePrompt(9, 1), 50), older);
  younger_id = Submit(*engine, GenerateRequest(SomePrompt(9, 2), 50), younger);
  both_in.Notify();
  older->WaitDone();
  younger->WaitDone();
  EXPECT_EQ(older->tokens(), rig_.Greedy(SomePrompt(9, 1), 50));
  EXPECT_EQ(younger->status(), absl::CancelledError("gone"));
  EXPECT_EQ(engine->stats().requests_swapped, 0);
  ExpectIdle(*engine);
}

TEST_P(EnginePreemptionTest, KnownBlocksGoBeforeAnybodyIsMovedAway) {
  const auto engine = rig_.NewEngine({.num_pages = 8, .page_tokens = 8});
  for (std::int32_t i = 0; i < 4; ++i) {
    const EngineRequest request = testing::Sharing(GenerateRequest(SomePrompt(33, i), 8));
    EXPECT_EQ(Generate(*engine, request), rig_.Greedy(request.prompt, 8));
  }
  EXPECT_EQ(engine->stats().pages_indexed, 7);  // four of the last prompt; it took five pages of eight
  EXPECT_GT(engine->stats().pages_evicted, 0);
  EXPECT_EQ(engine->stats().preemptions, 0);
  EXPECT_EQ(Generate(*engine, GenerateRequest(SomePrompt(9, 1), 55)), rig_.Greedy(SomePrompt(9, 1), 55));
  EXPECT_EQ(engine->stats().preemptions, 0);
  ExpectIdle(*engine);
}

INSTANTIATE_TEST_SUITE_P(Backends, EnginePreemptionTest, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace scd
