#include "consumer/engine.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <random>
#include <thread>

#include "absl/synchronization/notification.h"
#include "common/io/json.h"
#include "common/model/model_source.h"
#include "gmock/gmock.h"
#include "kernels/backend_factory.h"
#include "tests/consumer/engine_rig.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using testing::EngineTest;
using testing::GenerateRequest;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RecordingObserver;
using testing::SomePrompt;
using testing::StagedRequest;

TEST_P(EngineTest, GreedyEqualsPlainForwardPasses) {
  const auto engine = rig_.NewEngine({.num_pages = 40, .page_tokens = 8, .prefill_chunk_tokens = 6});
  for (const std::int32_t length : {1, 6, 7, 40}) {
    const auto prompt = SomePrompt(length, 1);
    const auto observer = NewObserver();
    Submit(*engine, GenerateRequest(prompt, 12), observer);
    observer->WaitDone();
    EXPECT_EQ(observer->tokens(), rig_.Greedy(prompt, 12));
    EXPECT_TRUE(observer->status().ok());
    EXPECT_EQ(observer->reason(), FinishReason::kMaxTokens);
    const EngineTimings t = observer->timings();
    EXPECT_EQ(t.num_computed, length);
    EXPECT_GT(t.native_prefill_ms, 0.0);
    EXPECT_GE(t.first_token_ms, t.native_prefill_ms);
    EXPECT_GE(t.first_token_ms, t.queue_ms);
    EXPECT_GT(t.decode_ms, 0.0);
  }
  ExpectIdle(*engine);
}

TEST_P(EngineTest, ManyRequestsAtOnceEqualEachAlone) {
  // More requests than fit one decode batch or the pages at once, sampled with their own seeds.
  std::vector<EngineRequest> requests;
  for (std::int32_t i = 0; i < 10; ++i) {
    EngineRequest request = GenerateRequest(SomePrompt(3 + 9 * (i % 5), i), 6 + i);
    request.sampling.temperature = i % 2 == 0 ? 1.0f : 0.0f;
    request.sampling.top_p = 0.9f;
    request.sampling.seed = static_cast<std::uint64_t>(i);
    request.sampling.repetition_penalty = 1.1f;
    requests.push_back(request);
  }
  std::vector<std::vector<std::int32_t>> alone;
  {
    const auto engine = rig_.NewEngine();
    for (const EngineRequest& request : requests) alone.push_back(Generate(*engine, request));
  }
  const auto engine = rig_.NewEngine({.num_pages = 24,
                                      .page_tokens = 8,
                                      .swap_bytes = 1 << 20,
                                      .max_batch_sequences = 3,
                                      .prefill_chunk_tokens = 10});
  std::vector<std::shared_ptr<RecordingObserver>> observers;
  for (const EngineRequest& request : requests) {
    observers.push_back(NewObserver());
    Submit(*engine, request, observers.back());
  }
  for (std::size_t i = 0; i < observers.size(); ++i) {
    observers[i]->WaitDone();
    EXPECT_TRUE(observers[i]->status().ok()) << observers[i]->status();
    EXPECT_EQ(observers[i]->tokens(), alone[i]) << "request " << i;
    EXPECT_EQ(observers[i]->timings().num_computed, static_cast<std::int64_t>(requests[i].prompt.size()));
  }
  ExpectIdle(*engine);
}

TEST_P(EngineTest, StagedRequestsEqualNativeOnes) {
  const auto engine = rig_.NewEngine({.num_pages = 40, .page_tokens = 8, .prefill_chunk_tokens = 4});
  const auto prompt = SomePrompt(30, 2);
  const auto expected = rig_.Greedy(prompt, 10);
  for (const std::int64_t head : {0, 1, 6}) {
    for (const std::int64_t tail : {0, 5}) {
      SCOPED_TRACE(::testing::Message() << "head " << head << ", tail " << tail);
      const EngineRequest request = StagedRequest(prompt, 10, head, tail);
      const auto observer = NewObserver();
      std::thread rebuilder;
      observer->admitted_hook = [&](EngineRequestId id, std::shared_ptr<Sequence> sequence) {
        rebuilder = std::thread([&, id, sequence] {
          rig_.Rebuild(prompt, request.staged_begin, request.staged_end, *sequence);
          engine->Staged(id, request.staged_end);
        });
      };
      Submit(*engine, request, observer);
      observer->WaitDone();
      rebuilder.join();
      EXPECT_TRUE(observer->status().ok()) << observer->status();
      EXPECT_EQ(observer->tokens(), expected);
      EXPECT_EQ(observer->timings().num_computed, head + tail + 1);
    }
  }
  ExpectIdle(*engine);
}

TEST_P(EngineTest, WhatWasNotStagedIsComputed) {
  const auto engine = rig_.NewEngine();
  const auto prompt = SomePrompt(30, 3);
  const auto expected = rig_.Greedy(prompt, 6);
  // Staged up to a position before the end that was announced.
  {
    const auto observer = NewObserver();
    observer->admitted_hook = [&](EngineRequestId id, std::shared_ptr<Sequence> sequence) {
      rig_.Rebuild(prompt, 2, 15, *sequence);
      engine->Staged(id, 12);
      engine->Staged(id, 25);  // only the first word counts
    };
    Submit(*engine, StagedRequest(prompt, 6, 2, 4), observer);
    observer->WaitDone();
    EXPECT_EQ(observer->tokens(), expected);
    EXPECT_EQ(observer->timings().num_computed, 2 + 18);
  }
  // Given up after something wrong was written.
  {
    const auto observer = NewObserver();
    observer->admitted_hook = [&](EngineRequestId id, std::shared_ptr<Sequence> sequence) {
      rig_.Rebuild(SomePrompt(30, 9), 2, 25, *sequence);
      engine->ComputeNatively(id);
    };
    Submit(*engine, StagedRequest(prompt, 6, 2, 4), observer);
    observer->WaitDone();
    EXPECT_EQ(observer->tokens(), expected);
    EXPECT_EQ(observer->timings().num_computed, 30);
  }
  ExpectIdle(*engine);
}

TEST_P(EngineTest, StagingMayBeGivenUpBeforeAdmission) {
  const auto engine = rig_.NewEngine({.num_pages = 5, .page_tokens = 8});
  const auto prompt = SomePrompt(30, 3);
  const auto first = NewObserver();
  absl::Notification go_on;
  first->token_hook = [&](const SampledToken&) {
    go_on.WaitForNotification();
    return true;
  };
  Submit(*engine, GenerateRequest(SomePrompt(20, 1), 4), first);
  const auto second = NewObserver();
  const Id id = Submit(*engine, StagedRequest(prompt, 6, 0, 4), second);
  engine->ComputeNatively(id);
  go_on.Notify();
  second->WaitDone();
  EXPECT_EQ(second->tokens(), rig_.Greedy(prompt, 6));
  EXPECT_EQ(second->timings().num_computed, 30);
}

TEST_P(EngineTest, ScoreGivesTheLogitsOfEveryContinuationPosition) {
  const auto engine = rig_.NewEngine(
      {.num_pages = 40, .page_tokens = 8, .max_batch_sequences = 2, .prefill_chunk_tokens = 5});
  const auto prompt = SomePrompt(17, 4);
  for (const std::int32_t length : {0, 1, 4, 23}) {
    for (const bool staged : {false, true}) {
      SCOPED_TRACE(::testing::Message() << length << " tokens, staged " << staged);
      EngineRequest request = StagedRequest(prompt, 0, 1, staged ? 3 : 15);
      request.score = true;
      request.continuation = SomePrompt(length, 5);
      auto all = prompt;
      all.insert(all.end(), request.continuation.begin(), request.continuation.end());
      const auto observer = NewObserver();
      observer->admitted_hook = [&](EngineRequestId id, std::shared_ptr<Sequence> sequence) {
        if (!staged) return;
        rig_.Rebuild(prompt, request.staged_begin, request.staged_end, *sequence);
        engine->Staged(id, request.staged_end);
      };
      Submit(*engine, request, observer);
      observer->WaitDone();
      EXPECT_TRUE(observer->status().ok()) << observer->status();
      EXPECT_THAT(observer->tokens(), IsEmpty());
      ExpectRows(observer->logits(), rig_.Logits(all), 16);
      EXPECT_EQ(observer->timings().num_computed, staged ? 5 : 17);
      EXPECT_GT(observer->timings().first_token_ms, 0.0);
    }
  }
  ExpectIdle(*engine);
}

TEST_P(EngineTest, EndsForTheReasonThatCameFirst) {
  const auto engine = rig_.NewEngine();
  const auto prompt = SomePrompt(9, 6);
  const auto greedy = rig_.Greedy(prompt, 8);
  // The first token that did not come before, so that it can stop exactly there.
  std::size_t at = 1;
  while (std::count(greedy.begin(), greedy.begin() + static_cast<std::ptrdiff_t>(at), greedy[at]) != 0) ++at;
  const auto before =
      std::vector<std::int32_t>(greedy.begin(), greedy.begin() + static_cast<std::ptrdiff_t>(at));

  const auto by_token = NewObserver();
  EngineRequest request = GenerateRequest(prompt, 8);
  request.stop_token_ids = {-5, greedy[at], 1 << 20};
  Submit(*engine, request, by_token);
  by_token->WaitDone();
  EXPECT_EQ(by_token->reason(), FinishReason::kStopToken);
  EXPECT_EQ(by_token->tokens(), before);

  const auto by_observer = NewObserver();
  by_observer->token_hook = [&](const SampledToken& token) { return token.id != greedy[at]; };
  Submit(*engine, GenerateRequest(prompt, 8), by_observer);
  by_observer->WaitDone();
  EXPECT_EQ(by_observer->reason(), FinishReason::kStopped);
  EXPECT_TRUE(by_observer->status().ok());
  EXPECT_EQ(by_observer->tokens().size(), at + 1);

  EXPECT_THAT(Generate(*engine, GenerateRequest(prompt, 1)), ElementsAre(greedy[0]));
  ExpectIdle(*engine);
}

TEST_P(EngineTest, PagesAreFreeWhenDoneIsHeard) {
  const auto engine = rig_.NewEngine();
  const auto observer = NewObserver();
  std::int64_t used = -1;
  observer->done_hook = [&] { used = engine->stats().pages_used; };
  Submit(*engine, GenerateRequest(SomePrompt(20, 1), 3), observer);
  observer->WaitDone();
  EXPECT_EQ(used, 0);
}

TEST_P(EngineTest, RefusesRequestsThatCannotBeServed) {
  const auto engine =
      rig_.NewEngine({.num_pages = 12, .page_tokens = 8});  // 96 positions, of the model's 512
  const auto expect = [&](const EngineRequest& request, const std::string& text) {
    const auto id = engine->Submit(request, NewObserver());
    EXPECT_EQ(id.status().code(), absl::StatusCode::kInvalidArgument) << id.status();
    EXPECT_THAT(std::string(id.status().message()), HasSubstr(text));
  };
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  const auto prompt = SomePrompt(10, 1);
  expect(GenerateRequest({}, 5), "prompt is empty");
  expect(GenerateRequest({1, 50}, 5), "prompt[1] is 50");
  expect(GenerateRequest({-1}, 5), "prompt[0] is -1");
  expect(GenerateRequest({std::numeric_limits<std::int32_t>::min()}, 5), "prompt[0]");
  expect(GenerateRequest(prompt, 0), "max_tokens");
  expect(GenerateRequest(prompt, -kHuge), "max_tokens");
  expect(GenerateRequest(prompt, 87), "the limit is 96");
  expect(GenerateRequest(prompt, kHuge), "the limit is 96");
  expect(GenerateRequest(std::vector<std::int32_t>(100000, 1), 5), "the limit is 96");
  EngineRequest request = GenerateRequest(prompt, 5);
  request.sampling.top_p = -1.0f;
  expect(request, "top_p");
  for (const auto& [begin, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {-1, 3}, {4, 3}, {0, 10}, {0, kHuge}, {kHuge, kHuge}, {-kHuge, 2}}) {
    request = GenerateRequest(prompt, 5);
    request.staged_begin = begin;
    request.staged_end = end;
    expect(request, "staged positions");
  }
  request = GenerateRequest(prompt, 0);
  request.score = true;
  request.continuation = {3, 99};
  expect(request, "continuation[1] is 99");
  request.continuation = std::vector<std::int32_t>(87, 1);
  expect(request, "the limit is 96");
  EXPECT_EQ(engine->Submit(GenerateRequest(prompt, 5), nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);

  EXPECT_EQ(Generate(*engine, GenerateRequest(prompt, 86)).size(), 86u);  // exactly all positions
  ExpectIdle(*engine);
}

TEST_P(EngineTest, RefusesImpossibleOptions) {
  const auto code = [&](const EngineOptions& options) {
    return Engine::Create(*rig_.transformer, options).status().code();
  };
  using enum absl::StatusCode;
  EXPECT_EQ(code({.num_pages = 0}), kInvalidArgument);
  EXPECT_EQ(code({.num_pages = 1, .page_tokens = 0}), kInvalidArgument);
  EXPECT_EQ(code({.num_pages = 1, .max_batch_sequences = 0}), kInvalidArgument);
  EXPECT_EQ(code({.num_pages = 1, .prefill_chunk_tokens = -1}), kInvalidArgument);
  EXPECT_EQ(code({.num_pages = 1, .max_queued_requests = 0}), kInvalidArgument);
  EXPECT_EQ(code({.num_pages = std::int64_t{1} << 30, .page_tokens = std::int64_t{1} << 30}),
            kResourceExhausted);
}

TEST(EngineGoldenTest, ContinuesLikeTransformersDoes) {
  for (const std::string name : {"tiny-llama", "tiny-llama3", "tiny-mistral", "tiny-qwen2", "tiny-qwen3"}) {
    SCOPED_TRACE(name);
    const std::string folder = testing::TestDataPath(name);
    const auto expected = ParseJsonFile(folder + "/expected.json");
    ASSERT_TRUE(expected.ok()) << expected.status();
    const auto model = OpenModel({.path = folder, .adapter = "", .config = ""});
    ASSERT_TRUE(model.ok()) << model.status();
    const auto backend = *CreateBackend({.device = "cpu", .num_threads = 2, .math = MathMode::kF32});
    const auto transformer = *Transformer::Create(model->config, *model->weights, *backend);
    const auto engine = *Engine::Create(*transformer, {.num_pages = 40, .page_tokens = 16});
    std::vector<std::shared_ptr<RecordingObserver>> observers;
    for (const nlohmann::json& run : (*expected)["runs"]) {
      observers.push_back(std::make_shared<RecordingObserver>());
      ASSERT_TRUE(engine->Submit(GenerateRequest(run["ids"], 16), observers.back()).ok());
    }
    for (std::size_t i = 0; i < observers.size(); ++i) {
      observers[i]->WaitDone();
      EXPECT_EQ(observers[i]->tokens(), (*expected)["runs"][i]["greedy"].get<std::vector<std::int32_t>>());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, EngineTest, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace scd
