#include "producer/prefill_engine.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/cache/sequence.h"
#include "common/wire/payload_format.h"
#include "kernels/status_macros.h"
#include "producer/code_collector.h"
#include "producer/encoding_tap.h"

namespace scd {

namespace {

// Tokens of the longest granule that a plan's codes have.
std::int64_t PlanGranule(const LayerPlan& plan) {
  std::int64_t longest = 1;
  for (const CodeColumn& column : PlanColumns(plan)) {
    longest = std::max(longest, GranuleTokens(plan.codec, column.kind));
  }
  return longest;
}

}  // namespace

struct PrefillEngine::Entry {
  std::shared_ptr<PrefillJob> job;
  absl::Time submitted;
  std::stop_source cancel;

  // Since it has pages.
  std::unique_ptr<Sequence> sequence;
  ReadyEncoder encoder;                    // from the first chunk on
  std::optional<CodeCollector> collector;  // where codes are to be stored
  std::size_t num_stored_blocks = 0;
  std::int64_t position = 0;  // tokens before it are done
  PrefillTimings timings;

  std::int64_t num_tokens() const { return static_cast<std::int64_t>(job->input().token_ids.size()); }
};

absl::StatusOr<std::unique_ptr<PrefillEngine>> PrefillEngine::Create(const Transformer& transformer,
                                                                     const PrefillEngineOptions& options,
                                                                     CodeStore* store) {
  const ModelConfig& config = transformer.config();
  KvLayout layout;
  layout.num_layers = config.num_layers;
  layout.num_kv_heads = config.num_kv_heads;
  layout.head_dim = config.head_dim;
  layout.page_tokens = options.page_tokens;
  const std::int64_t num_pages = (options.kv_tokens + options.page_tokens - 1) / options.page_tokens;
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<PagedKvCache> cache,
                       PagedKvCache::Create(transformer.backend(), layout, num_pages));
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<Transformer::Workspace> workspace,
                       transformer.CreateWorkspace(options.chunk_tokens, 0));
  return std::unique_ptr<PrefillEngine>(
      new PrefillEngine(transformer, options, store, std::move(cache), std::move(workspace)));
}

PrefillEngine::PrefillEngine(const Transformer& transformer, const PrefillEngineOptions& options,
                             CodeStore* store, std::unique_ptr<PagedKvCache> cache,
                             std::unique_ptr<Transformer::Workspace> workspace)
    : transformer_(transformer),
      options_(options),
      store_(store),
      cache_(std::move(cache)),
      workspace_(std::move(workspace)),
      encoders_(transformer.rope(), transformer.backend(), options.chunk_tokens, options.max_cached_plans),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

PrefillEngine::~PrefillEngine() {
  thread_.request_stop();
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

absl::Status PrefillEngine::Submit(std::shared_ptr<PrefillJob> job) {
  auto entry = std::make_shared<Entry>();
  entry->job = std::move(job);
  entry->submitted = absl::Now();
  if (cache_->PagesFor(entry->num_tokens()) > cache_->num_pages()) {
    return absl::InvalidArgumentError(absl::StrCat("token_ids: ", entry->num_tokens(),
                                                   " tokens do not fit into this producer's KV cache of ",
                                                   cache_->num_pages() * options_.page_tokens));
  }
  const absl::MutexLock lock(&mutex_);
  if (stopping_) return absl::UnavailableError("the producer is shutting down");
  queue_.push_back(std::move(entry));
  Activate();
  if (static_cast<std::int64_t>(queue_.size()) > options_.max_queued_requests) {
    queue_.pop_back();
    return absl::ResourceExhaustedError(absl::StrCat("the producer's queue is full: ", queue_.size(),
                                                     " requests wait and ", active_.size(), " run"));
  }
  woken_ = true;
  return absl::OkStatus();
}

void PrefillEngine::Cancel(const PrefillJob& job) {
  std::shared_ptr<Entry> found;
  {
    const absl::MutexLock lock(&mutex_);
    if (running_ != nullptr && running_->job.get() == &job) {
      running_->cancel.request_stop();
      return;
    }
    for (Entries* entries : {&queue_, &active_}) {
      const auto place = std::find_if(entries->begin(), entries->end(),
                                      [&job](const auto& e) { return e->job.get() == &job; });
      if (place == entries->end()) continue;
      found = std::move(*place);
      entries->erase(place);
      woken_ = true;  // its place or its pages may let another one start
      break;
    }
  }
  if (found != nullptr) Complete(*found, absl::CancelledError("the request was cancelled"));
}

void PrefillEngine::Wake() {
  const absl::MutexLock lock(&mutex_);
  woken_ = true;
}

PrefillEngine::Stats PrefillEngine::stats() const {
  const absl::MutexLock lock(&mutex_);
  return {.num_queued = static_cast<std::int64_t>(queue_.size()),
          .num_active = static_cast<std::int64_t>(active_.size()),
          .pages_used = cache_->num_used_pages(),
          .pages_total = cache_->num_pages()};
}

void PrefillEngine::Complete(Entry& entry, const absl::Status& status) {
  entry.sequence.reset();
  entry.job->Complete(status, entry.timings);
}

void PrefillEngine::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const std::shared_ptr<Entry> entry = PickRunnable();
    if (entry == nullptr) {
      Sleep();
      continue;
    }
    absl::Status status = RunChunk(*entry, stop);
    if (stop.stop_requested()) status = absl::UnavailableError("the producer is shutting down");
    if (Settle(entry, &status)) Complete(*entry, status);
  }
  Entries left;
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
    left.splice(left.end(), active_);
    left.splice(left.end(), queue_);
  }
  for (const auto& entry : left) Complete(*entry, absl::UnavailableError("the producer is shutting down"));
}

void PrefillEngine::Activate() {
  // Only ever the first: a long prompt is not overtaken for ever by short ones.
  while (!queue_.empty()) {
    Entry& entry = *queue_.front();
    absl::StatusOr<std::unique_ptr<Sequence>> sequence = Sequence::Create(*cache_, entry.num_tokens());
    if (!sequence.ok()) return;  // pages come back when a job ends
    entry.sequence = *std::move(sequence);
    active_.splice(active_.end(), queue_, queue_.begin());
  }
}

std::shared_ptr<PrefillEngine::Entry> PrefillEngine::PickRunnable() {
  const absl::MutexLock lock(&mutex_);
  Activate();
  const auto place =
      std::find_if(active_.begin(), active_.end(), [](const auto& entry) { return entry->job->HasRoom(); });
  running_ = place == active_.end() ? nullptr : *place;
  return running_;
}

bool PrefillEngine::CanStore(const LayerPlan& plan) const {
  return options_.chunk_tokens >= PlanGranule(plan) && CodeCollector::CanCut(plan, options_.block_tokens);
}

std::int64_t PrefillEngine::ChunkEnd(const Entry& entry) const {
  const PrefillInput& input = entry.job->input();
  const std::int64_t end = entry.position + options_.chunk_tokens;
  if (end >= entry.num_tokens()) return entry.num_tokens();
  const std::int64_t cut = end > input.first_token ? (end - input.first_token) % PlanGranule(input.plan) : 0;
  return cut < options_.chunk_tokens ? end - cut : end;
}

absl::Status PrefillEngine::RunChunk(Entry& entry, const std::stop_token& stop) {
  const PrefillInput& input = entry.job->input();
  const absl::Time start = absl::Now();
  if (entry.encoder.encoder == nullptr) {
    entry.timings.queue_ms = absl::ToDoubleMilliseconds(start - entry.submitted);
    SCD_ASSIGN_OR_RETURN(entry.encoder, encoders_.Get(*input.bundle, input.plan));
    if (store_ != nullptr && !input.block_keys.empty() && CanStore(input.plan))
      entry.collector.emplace(input.plan, options_.block_tokens);
  }
  std::stop_source cancel;
  const auto request_stop = [&cancel] { cancel.request_stop(); };
  const std::stop_callback on_cancel(entry.cancel.get_token(), request_stop);
  const std::stop_callback on_stop(stop, request_stop);

  const std::int64_t begin = entry.position;
  const std::int64_t end = ChunkEnd(entry);
  EncodingTap tap(entry.encoder, begin, end, input.first_token, [&entry](LayerCode code) {
    if (entry.collector.has_value()) entry.collector->Add(code);
    entry.job->Deliver(std::move(code));
  });
  const ForwardChunk chunk = {
      .sequence = entry.sequence.get(),
      .tokens = absl::MakeConstSpan(input.token_ids)
                    .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
      .first_position = begin,
      .logits = LogitsWanted::kNone};
  const absl::Status status = transformer_.Forward(*workspace_, absl::MakeConstSpan(&chunk, 1),
                                                   {.tap = &tap, .cancel = cancel.get_token()});
  entry.timings.encode_ms += absl::ToDoubleMilliseconds(tap.encode_time());
  entry.timings.prefill_ms += absl::ToDoubleMilliseconds(absl::Now() - start);
  SCD_RETURN_IF_ERROR(status);
  entry.position = end;

  if (entry.collector.has_value()) {
    for (std::shared_ptr<const CodeBlock>& block : entry.collector->TakeBlocks()) {
      store_->Insert(absl::MakeConstSpan(input.block_keys).subspan(0, ++entry.num_stored_blocks),
                     std::move(block));
    }
  }
  return absl::OkStatus();
}

bool PrefillEngine::Settle(const std::shared_ptr<Entry>& entry, absl::Status* status) {
  const absl::MutexLock lock(&mutex_);
  running_ = nullptr;
  if (status->ok() && entry->position < entry->num_tokens()) {
    if (!entry->cancel.stop_requested()) return false;
    *status = absl::CancelledError("the request was cancelled");
  }
  active_.remove(entry);
  return true;
}

void PrefillEngine::Sleep() {
  const absl::MutexLock lock(&mutex_);
  const auto wanted = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return woken_ || stopping_; };
  mutex_.Await(absl::Condition(&wanted));
  woken_ = false;
}

}  // namespace scd
