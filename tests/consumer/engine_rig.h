// An engine over a small model, an observer that remembers, and the truth to compare with.
#ifndef SCD_TESTS_CONSUMER_ENGINE_RIG_H_
#define SCD_TESTS_CONSUMER_ENGINE_RIG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/cache/block_keys.h"
#include "common/model/transformer.h"
#include "consumer/engine.h"
#include "gtest/gtest.h"

namespace scd::testing {

// Remembers everything that it hears; hooks run on the engine's thread after that.
class RecordingObserver final : public EngineObserver {
 public:
  void OnAdmitted(EngineRequestId id, std::shared_ptr<Sequence> sequence) override;
  bool OnToken(const SampledToken& token) override;
  void OnLogits(std::int64_t first_row, ConstTensorView logits) override;
  void OnDone(const absl::Status& status, FinishReason reason, const EngineTimings& timings) override;

  // Set before Submit.
  std::function<void(EngineRequestId, std::shared_ptr<Sequence>)> admitted_hook =
      [](EngineRequestId, std::shared_ptr<Sequence>) {};
  std::function<bool(const SampledToken&)> token_hook = [](const SampledToken&) { return true; };
  std::function<void()> done_hook = [] {};

  // Each fails the test after 60 seconds.
  void WaitDone();
  void WaitTokens(std::size_t count);

  bool done() const;
  std::vector<std::int32_t> tokens() const;
  // After WaitDone.
  absl::Status status() const;
  FinishReason reason() const;
  EngineTimings timings() const;
  std::vector<std::vector<float>> logits() const;
  bool admitted() const;

 private:
  void Await(const std::function<bool()>& condition);

  mutable absl::Mutex mutex_;
  bool admitted_ ABSL_GUARDED_BY(mutex_) = false;
  int times_done_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::int32_t> tokens_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<float>> logits_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  FinishReason reason_ ABSL_GUARDED_BY(mutex_) = FinishReason::kStopped;
  EngineTimings timings_ ABSL_GUARDED_BY(mutex_);
};

struct EngineRig {
  // `device` names the backend. The model is SmallConfig with room for 512 positions.
  static EngineRig Make(const std::string& device);

  std::unique_ptr<Engine> NewEngine(EngineOptions options = {.num_pages = 40, .page_tokens = 8}) const;

  // Logits of every position, computed in one pass without an engine.
  std::vector<std::vector<float>> Logits(const std::vector<std::int32_t>& tokens) const;
  // The best continuation, likewise.
  std::vector<std::int32_t> Greedy(std::vector<std::int32_t> prompt, std::size_t count) const;
  // Plays the rebuilder: K and V of [begin, end) of `tokens`, computed elsewhere, written into `sequence`.
  void Rebuild(const std::vector<std::int32_t>& tokens, std::int64_t begin, std::int64_t end,
               Sequence& sequence) const;

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> transformer;
};

std::vector<std::int32_t> SomePrompt(std::int32_t count, std::int32_t salt);

// An engine test on a backend.
class EngineTest : public ::testing::TestWithParam<std::string> {
 protected:
  using Id = Engine::RequestId;

  static std::shared_ptr<RecordingObserver> NewObserver() { return std::make_shared<RecordingObserver>(); }

  Id Submit(Engine& engine, EngineRequest request, const std::shared_ptr<RecordingObserver>& observer) {
    const auto id = engine.Submit(std::move(request), observer);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or(0);
  }

  // Runs it to its end and returns its tokens.
  std::vector<std::int32_t> Generate(Engine& engine, EngineRequest request) {
    const auto observer = NewObserver();
    Submit(engine, std::move(request), observer);
    observer->WaitDone();
    EXPECT_TRUE(observer->status().ok()) << observer->status();
    return observer->tokens();
  }

  static void ExpectIdle(const Engine& engine) {
    const Engine::Stats stats = engine.stats();
    EXPECT_EQ(stats.pages_used, 0);
    EXPECT_EQ(stats.requests_queued, 0);
    EXPECT_EQ(stats.requests_running, 0);
  }

  static void ExpectRows(const std::vector<std::vector<float>>& actual,
                         const std::vector<std::vector<float>>& expected, std::size_t first) {
    ASSERT_EQ(actual.size(), expected.size() - first);
    for (std::size_t r = 0; r < actual.size(); ++r) {
      for (std::size_t i = 0; i < actual[r].size(); ++i) {
        ASSERT_NEAR(actual[r][i], expected[first + r][i], 2e-5) << "row " << r << ", logit " << i;
      }
    }
  }

  EngineRig rig_ = EngineRig::Make(GetParam());
};

inline EngineRequest GenerateRequest(std::vector<std::int32_t> prompt, std::int64_t max_tokens) {
  EngineRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  return request;
}

// The last prompt token and `tail` positions before it, and `head` first positions, are native.
inline EngineRequest StagedRequest(std::vector<std::int32_t> prompt, std::int64_t max_tokens,
                                   std::int64_t head, std::int64_t tail) {
  EngineRequest request = GenerateRequest(std::move(prompt), max_tokens);
  request.staged_begin = head;
  request.staged_end = static_cast<std::int64_t>(request.prompt.size()) - 1 - tail;
  return request;
}

// Shares the blocks of page_tokens that its prompt, or what is staged of it, has.
inline EngineRequest Sharing(EngineRequest request, std::int64_t page_tokens = 8) {
  const bool staged = request.staged_begin < request.staged_end;
  const auto end = staged ? static_cast<std::size_t>(request.staged_end) : request.prompt.size();
  request.block_keys = BlockKeys(DigestBuilder("engine test").AddInt(staged ? 1 : 0).Finish(),
                                 absl::MakeConstSpan(request.prompt).first(end), page_tokens);
  return request;
}

}  // namespace scd::testing

#endif  // SCD_TESTS_CONSUMER_ENGINE_RIG_H_
