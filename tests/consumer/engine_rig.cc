#include "tests/consumer/engine_rig.h"

#include <algorithm>

#include "kernels/backend_factory.h"
#include "tests/support/random_weights.h"

namespace scd::testing {

void RecordingObserver::OnAdmitted(EngineRequestId id, std::shared_ptr<Sequence> sequence) {
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(admitted_);
    EXPECT_EQ(times_done_, 0);
    admitted_ = true;
  }
  admitted_hook(id, std::move(sequence));
}

bool RecordingObserver::OnToken(const SampledToken& token) {
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(admitted_);
    EXPECT_EQ(times_done_, 0);
    tokens_.push_back(token.id);
  }
  return token_hook(token);
}

void RecordingObserver::OnLogits(std::int64_t first_row, ConstTensorView logits) {
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(times_done_, 0);
  EXPECT_EQ(first_row, static_cast<std::int64_t>(logits_.size()));
  for (std::int64_t i = 0; i < logits.dim(0); ++i) {
    logits_.emplace_back(logits.row<float>(i), logits.row<float>(i) + logits.dim(1));
  }
}

void RecordingObserver::OnDone(const absl::Status& status, FinishReason reason,
                               const EngineTimings& timings) {
  done_hook();
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(++times_done_, 1);
  status_ = status;
  reason_ = reason;
  timings_ = timings;
}

void RecordingObserver::Await(const std::function<bool()>& condition) {
  absl::MutexLock lock(&mutex_);
  const auto call = +[](const std::function<bool()>* f) { return (*f)(); };
  EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(call, &condition), absl::Seconds(60)))
      << "nothing heard";
}

void RecordingObserver::WaitDone() {
  Await([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return times_done_ > 0; });
}

void RecordingObserver::WaitTokens(std::size_t count) {
  Await([this, count]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return tokens_.size() >= count; });
}

bool RecordingObserver::done() const {
  absl::MutexLock lock(&mutex_);
  return times_done_ > 0;
}

std::vector<std::int32_t> RecordingObserver::tokens() const {
  absl::MutexLock lock(&mutex_);
  return tokens_;
}

absl::Status RecordingObserver::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

FinishReason RecordingObserver::reason() const {
  absl::MutexLock lock(&mutex_);
  return reason_;
}

EngineTimings RecordingObserver::timings() const {
  absl::MutexLock lock(&mutex_);
  return timings_;
}

std::vector<std::vector<float>> RecordingObserver::logits() const {
  absl::MutexLock lock(&mutex_);
  return logits_;
}

bool RecordingObserver::admitted() const {
  absl::MutexLock lock(&mutex_);
  return admitted_;
}

EngineRig EngineRig::Make(const std::string& device) {
  ModelConfig config = SmallConfig();
  config.max_positions = 512;
  EngineRig rig;
  rig.backend = *CreateBackend({.device = device, .num_threads = 2, .math = MathMode::kF32});
  rig.transformer = *Transformer::Create(config, RandomWeights(config), *rig.backend);
  return rig;
}

std::unique_ptr<Engine> EngineRig::NewEngine(EngineOptions options) const {
  auto engine = Engine::Create(*transformer, options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

namespace {

struct OwnRun {
  OwnRun(const Transformer& transformer, const std::vector<std::int32_t>& tokens, LogitsWanted logits) {
    const ModelConfig& c = transformer.config();
    const auto count = static_cast<std::int64_t>(tokens.size());
    cache = *PagedKvCache::Create(
        transformer.backend(), {c.num_layers, c.num_kv_heads, c.head_dim, 16, DType::kF32}, count / 16 + 1);
    sequence = *Sequence::Create(*cache, count);
    workspace = *transformer.CreateWorkspace(count, count);
    const ForwardChunk chunk{sequence.get(), tokens, 0, logits};
    const absl::Status status = transformer.Forward(*workspace, {&chunk, 1});
    EXPECT_TRUE(status.ok()) << status;
  }

  std::unique_ptr<PagedKvCache> cache;
  std::unique_ptr<Sequence> sequence;
  std::unique_ptr<Transformer::Workspace> workspace;
};

// K or V of one position and head.
float* At(const TensorView& pages, const ConstTensorView& table, std::int64_t position, std::int64_t head) {
  const std::int64_t page_tokens = pages.dim(2);
  const std::int32_t page = table.as<std::int32_t>()[position / page_tokens];
  return pages.row<float>(page) + (head * page_tokens + position % page_tokens) * pages.dim(3);
}

}  // namespace

std::vector<std::vector<float>> EngineRig::Logits(const std::vector<std::int32_t>& tokens) const {
  const OwnRun run(*transformer, tokens, LogitsWanted::kAll);
  const ConstTensorView logits = run.workspace->logits();
  std::vector<std::vector<float>> rows;
  for (std::int64_t i = 0; i < logits.dim(0); ++i) {
    rows.emplace_back(logits.row<float>(i), logits.row<float>(i) + logits.dim(1));
  }
  return rows;
}

std::vector<std::int32_t> EngineRig::Greedy(std::vector<std::int32_t> prompt, std::size_t count) const {
  std::vector<std::int32_t> tokens;
  while (tokens.size() < count) {
    const OwnRun run(*transformer, prompt, LogitsWanted::kLast);
    const float* logits = run.workspace->logits().as<float>();
    const auto best = std::max_element(logits, logits + transformer->config().vocab_size) - logits;
    tokens.push_back(static_cast<std::int32_t>(best));
    prompt.push_back(tokens.back());
  }
  return tokens;
}

void EngineRig::Rebuild(const std::vector<std::int32_t>& tokens, std::int64_t begin, std::int64_t end,
                        Sequence& sequence) const {
  const OwnRun run(*transformer, tokens, LogitsWanted::kNone);
  const ModelConfig& c = transformer->config();
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer) {
    const PagedKv from = run.sequence->view(layer);
    const PagedKv to = sequence.view(layer);
    for (std::int64_t p = begin; p < end; ++p) {
      for (std::int64_t head = 0; head < c.num_kv_heads; ++head) {
        std::copy_n(At(from.k_pages, from.block_table, p, head), c.head_dim,
                    At(to.k_pages, to.block_table, p, head));
        std::copy_n(At(from.v_pages, from.block_table, p, head), c.head_dim,
                    At(to.v_pages, to.block_table, p, head));
      }
    }
  }
  EXPECT_TRUE(sequence.MarkValid(begin, end).ok());
}

std::vector<std::int32_t> SomePrompt(std::int32_t count, std::int32_t salt) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < count; ++i) tokens.push_back((i * i + i * (7 + salt) + salt * 11) % 50);
  return tokens;
}

}  // namespace scd::testing
