#include "producer/prefill_engine.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/cache/kv_cache_settings.h"
#include "kernels/status_macros.h"
#include "producer/code_collector.h"
#include "producer/encoding_tap.h"

namespace scd {

namespace {

std::int64_t RoundUp(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

void NoteStart(PrefillEntry& entry) {
  if (std::exchange(entry.started, true)) return;
  entry.report.queue_ms = absl::ToDoubleMilliseconds(absl::Now() - entry.submitted);
  entry.queued.reset();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrefillEngine>> PrefillEngine::Create(const Transformer& transformer,
                                                                     const PrefillEngineOptions& options,
                                                                     CodeStore* store) {
  const KvLayout layout =
      LayoutFor({.page_tokens = options.block_tokens, .dtype = options.kv_dtype}, transformer.config());
  const std::int64_t num_pages = RoundUp(options.kv_tokens, options.block_tokens) / options.block_tokens;
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
      cache_(std::move(cache)),
      workspace_(std::move(workspace)),
      encoders_(transformer.rope(), transformer.backend(), options.chunk_tokens, options.max_cached_plans),
      shared_(*cache_, store, options.share_pages, options.chunk_tokens),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

PrefillEngine::~PrefillEngine() {
  thread_.request_stop();
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

absl::Status PrefillEngine::Submit(std::shared_ptr<PrefillJob> job, StoredCodes known) {
  auto entry = std::make_shared<Entry>();
  entry->job = std::move(job);
  entry->known = std::move(known);
  entry->coded_end = entry->job->input().first_token;
  entry->submitted = absl::Now();
  entry->queued.emplace(entry->job->input().trace.get(), TraceTrack::kRequest, "queue");
  if (cache_->PagesFor(entry->num_tokens()) > cache_->num_pages()) {
    return absl::InvalidArgumentError(absl::StrCat("token_ids: ", entry->num_tokens(),
                                                   " tokens do not fit into this producer's KV cache of ",
                                                   cache_->num_pages() * options_.block_tokens));
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
  const PagedKvCache::Stats pages = cache_->stats();
  return {.num_queued = static_cast<std::int64_t>(queue_.size()),
          .num_active = static_cast<std::int64_t>(active_.size()),
          .pages_total = cache_->num_pages(),
          .pages_used = pages.used_pages,
          .pages_cached = pages.indexed_pages,
          .pages_evicted = pages.evicted_pages,
          .prefilled_tokens = prefilled_tokens_,
          .skipped_tokens = skipped_tokens_,
          .prefix_hits = prefix_hits_};
}

void PrefillEngine::Complete(Entry& entry, const absl::Status& status) {
  entry.sequence.reset();
  entry.queued.reset();
  entry.job->Complete(status, entry.report);
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
  std::int64_t still_needed = 0;
  for (const auto& entry : active_)
    still_needed += cache_->PagesFor(entry->num_tokens()) - entry->num_pages();
  // Only ever the first: a long prompt is not overtaken for ever by short ones.
  while (!queue_.empty()) {
    Entry& entry = *queue_.front();
    const std::int64_t needed = cache_->PagesFor(entry.num_tokens());
    if (still_needed + needed > cache_->num_available_pages()) return;  // pages come back when a job ends
    active_.splice(active_.end(), queue_, queue_.begin());
    StoredCodes known = shared_.TakeKnown(entry);
    StoredCodes codes = Take(entry);
    still_needed += needed - entry.num_pages();
    entry.job->Begin(known.num_tokens() + codes.num_tokens());
    for (StoredCodes* stored : {&known, &codes}) {
      if (!stored->blocks.empty()) entry.job->DeliverStored(std::move(*stored));
    }
  }
}

StoredCodes PrefillEngine::Take(Entry& entry) {
  const std::int64_t before = entry.position;
  StoredCodes codes = shared_.Take(entry);
  if (entry.position == before) return codes;
  NoteStart(entry);
  if (entry.report.num_cached_tokens == entry.position - before) ++prefix_hits_;  // its first
  skipped_tokens_ += entry.position - before;
  return codes;
}

std::shared_ptr<PrefillEngine::Entry> PrefillEngine::PickRunnable() {
  const absl::MutexLock lock(&mutex_);
  Activate();
  std::vector<std::shared_ptr<Entry>> ready;
  std::vector<std::int64_t> rows_left;
  for (const auto& entry : active_) {
    if (!entry->job->HasRoom()) continue;
    if (StoredCodes codes = Take(*entry); !codes.blocks.empty()) entry->job->DeliverStored(std::move(codes));
    // Nothing to run is done at once.
    if (entry->rows_left() == 0) return running_ = entry;
    ready.push_back(entry);
    rows_left.push_back(entry->rows_left());
  }
  if (ready.empty()) return nullptr;
  running_ = RunsFor(ready[turns_.Next(rows_left)], ready);
  return running_;
}

std::shared_ptr<PrefillEngine::Entry> PrefillEngine::RunsFor(std::shared_ptr<Entry> entry,
                                                             absl::Span<const std::shared_ptr<Entry>> ready) {
  // Of those at one position only older ones lead, so this ends.
  for (const auto& other : ready) {
    if (other == entry) break;
    if (shared_.Computes(*other, *entry)) return other;
  }
  return entry;
}

std::int64_t PrefillEngine::ChunkAlignment(const LayerPlan& plan) const {
  const std::int64_t granule = PlanGranule(plan);
  for (const std::int64_t unit : {std::lcm(granule, options_.block_tokens), granule}) {
    if (unit <= options_.chunk_tokens) return unit;
  }
  return 1;
}

std::int64_t PrefillEngine::ChunkEnd(const Entry& entry) const {
  const std::int64_t unit = ChunkAlignment(entry.job->input().plan);
  const std::int64_t most = options_.chunk_tokens / unit * unit;
  const std::int64_t num_chunks = (entry.rows_left() + most - 1) / most;
  const std::int64_t rows = (entry.rows_left() + num_chunks - 1) / num_chunks;
  const std::int64_t end = RoundUp(entry.position + rows, unit);
  // A unit fits into a chunk, so this leaves rows.
  const std::int64_t cut = end - entry.position > options_.chunk_tokens ? end - unit : end;
  return std::min(entry.num_tokens(), cut);
}

absl::Status PrefillEngine::RunChunk(Entry& entry, const std::stop_token& stop) {
  const PrefillInput& input = entry.job->input();
  if (entry.rows_left() == 0) return absl::OkStatus();
  const absl::Time start = absl::Now();
  NoteStart(entry);
  const std::int64_t begin = entry.position;
  std::int64_t end = ChunkEnd(entry);
  bool stores = false;
  {
    const absl::MutexLock lock(&mutex_);
    if (shared_.KnownAfterNext(entry)) end = std::min(end, begin + options_.block_tokens);
    if (entry.sequence == nullptr) {
      SCD_ASSIGN_OR_RETURN(entry.sequence, Sequence::Create(*cache_, end));
    } else {
      SCD_RETURN_IF_ERROR(entry.sequence->Reserve(end));
    }
    stores = shared_.Stores(input);
  }
  if (entry.encoder.encoder == nullptr) {
    SCD_ASSIGN_OR_RETURN(entry.encoder, encoders_.Get(*input.bundle, input.plan));
  }
  if (stores && !entry.collector.has_value()) {
    const std::int64_t first = std::max(begin, entry.coded_end);
    entry.collector.emplace(input.plan, options_.block_tokens, first);
    entry.next_code_block =
        static_cast<std::size_t>(first / options_.block_tokens - input.first_token / options_.block_tokens);
  }
  std::stop_source cancel;
  const auto request_stop = [&cancel] { cancel.request_stop(); };
  const std::stop_callback on_cancel(entry.cancel.get_token(), request_stop);
  const std::stop_callback on_stop(stop, request_stop);

  const std::int64_t chunk_index = entry.num_chunks++;
  const TraceSpan span(input.trace.get(), TraceTrack::kPrefill, "prefill",
                       {.chunk = chunk_index, .first_token = begin, .tokens = end - begin});
  EncodingTap tap(entry.encoder, begin, end, entry.coded_end, [&entry](LayerCode code) {
    if (entry.collector.has_value()) entry.collector->Add(code);
    entry.job->Deliver(std::move(code));
  });
  tap.TraceInto(input.trace.get(), chunk_index);
  const ForwardChunk chunk = {
      .sequence = entry.sequence.get(),
      .tokens = absl::MakeConstSpan(input.token_ids)
                    .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
      .first_position = begin,
      .logits = LogitsWanted::kNone};
  absl::Status status = transformer_.Forward(*workspace_, absl::MakeConstSpan(&chunk, 1),
                                             {.tap = &tap, .cancel = cancel.get_token()});
  if (status.ok()) status = tap.Finish();
  entry.report.encode_ms += absl::ToDoubleMilliseconds(tap.encode_time());
  entry.report.prefill_ms += absl::ToDoubleMilliseconds(absl::Now() - start);
  SCD_RETURN_IF_ERROR(status);
  entry.report.num_prefilled_tokens += end - begin;
  entry.position = end;
  entry.coded_end = std::max(entry.coded_end, end);
  const absl::MutexLock lock(&mutex_);
  prefilled_tokens_ += end - begin;
  return absl::OkStatus();
}

bool PrefillEngine::Settle(const std::shared_ptr<Entry>& entry, absl::Status* status) {
  const absl::MutexLock lock(&mutex_);
  running_ = nullptr;
  if (status->ok()) {
    shared_.Publish(*entry);
    if (entry->rows_left() > 0) {
      if (!entry->cancel.stop_requested()) return false;
      *status = absl::CancelledError("the request was cancelled");
    }
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
