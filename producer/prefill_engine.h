// Runs prefills of the base model on one thread, taking turns chunk by chunk (PrefillTurns), and hands out
// their codes as each layer of each chunk of tokens is done.
//
// A job waits in a bounded queue until the KV cache has room for its prompt; it takes pages as it needs them,
// but as many stay free as the active jobs still need, so that each can end. Blocks that are known are not
// computed again (SharedPrefixes), and where a job's next block is about to be computed by another one, that
// one runs in its turn: of jobs with one prefix the first computes it, the others take it over. One that is
// cancelled, fails or pauses leads nobody: the next one goes on from what is known.
//
// The engine never waits for a reader: a job without room for another chunk's codes pauses and the others
// run. So a slow reader slows only itself, and one that stalls is ended. Nor does it wait for another
// machine: of the code store it asks only what is known at once.
#ifndef SCD_PRODUCER_PREFILL_ENGINE_H_
#define SCD_PRODUCER_PREFILL_ENGINE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/cache/paged_kv_cache.h"
#include "common/model/transformer.h"
#include "common/store/code_store.h"
#include "producer/encoder_cache.h"
#include "producer/prefill_entry.h"
#include "producer/prefill_job.h"
#include "producer/prefill_turns.h"
#include "producer/shared_prefixes.h"

namespace scd {

struct PrefillEngineOptions {
  std::int64_t chunk_tokens = 512;
  std::int64_t kv_tokens = 8192;   // positions in the KV cache
  std::int64_t block_tokens = 32;  // of a page, and of a block of the code store
  DType kv_dtype = DType::kF32;    // f32, bf16 or i8
  bool share_pages = true;         // keep pages for later requests, as far as there is room
  std::int64_t max_queued_requests = 64;
  std::int64_t max_cached_plans = 8;
};

class PrefillEngine {
 public:
  // Starts the thread. `transformer` and `store` (may be null) outlive this.
  static absl::StatusOr<std::unique_ptr<PrefillEngine>> Create(const Transformer& transformer,
                                                               const PrefillEngineOptions& options,
                                                               CodeStore* store);
  PrefillEngine(const PrefillEngine&) = delete;
  PrefillEngine& operator=(const PrefillEngine&) = delete;
  // Completes what is left with UNAVAILABLE and joins the thread.
  ~PrefillEngine();

  // RESOURCE_EXHAUSTED where the queue is full, INVALID_ARGUMENT for a prompt longer than the KV cache. A job
  // that was taken hears Complete. `known`: codes of whole blocks from its first_token on that the store has
  // already; they are delivered as the job becomes active, and no others are made in their place.
  absl::Status Submit(std::shared_ptr<PrefillJob> job, StoredCodes known = {});
  // Ends a job with CANCELLED: at once where it waits or pauses, within one layer where it runs. Jobs that
  // are not there (any more) are ignored.
  void Cancel(const PrefillJob& job);
  // A job got room.
  void Wake();

  struct Stats {
    std::int64_t num_queued = 0;  // not started
    std::int64_t num_active = 0;  // started, not ended
    std::int64_t pages_total = 0;
    std::int64_t pages_used = 0;        // by active jobs
    std::int64_t pages_cached = 0;      // with known blocks; used or not
    std::int64_t pages_evicted = 0;     // since the start, as all below
    std::int64_t prefilled_tokens = 0;  // rows that the model ran
    std::int64_t skipped_tokens = 0;    // rows that it need not run
    std::int64_t prefix_hits = 0;       // jobs that took known blocks
  };
  Stats stats() const;

 private:
  using Entry = PrefillEntry;
  using Entries = std::list<std::shared_ptr<Entry>>;

  PrefillEngine(const Transformer& transformer, const PrefillEngineOptions& options, CodeStore* store,
                std::unique_ptr<PagedKvCache> cache, std::unique_ptr<Transformer::Workspace> workspace);

  void Run(const std::stop_token& stop);
  // Makes queued jobs active, as far as there are pages.
  void Activate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves an entry on over what is known. Returns the codes that were taken; its job has not heard of them.
  StoredCodes Take(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The active job whose chunk comes next, with pages for it, as running_; null where none has room.
  std::shared_ptr<Entry> PickRunnable();
  // The one that runs in the entry's turn: itself, or that which computes its next block. `ready`: oldest
  // first.
  std::shared_ptr<Entry> RunsFor(std::shared_ptr<Entry> entry, absl::Span<const std::shared_ptr<Entry>> ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Chunks end where pages and granules do, as far as a chunk holds one.
  std::int64_t ChunkAlignment(const LayerPlan& plan) const;
  // Where the next chunk ends. What is left is cut into equal chunks: a last one of few rows would cost as
  // much as one of many.
  std::int64_t ChunkEnd(const Entry& entry) const;
  absl::Status RunChunk(Entry& entry, const std::stop_token& stop);
  // After a chunk: whether the entry left, because of an error, the end of its prompt (OK) or Cancel
  // (CANCELLED).
  bool Settle(const std::shared_ptr<Entry>& entry, absl::Status* status);
  void Sleep();
  // Frees the pages, then tells the job.
  static void Complete(Entry& entry, const absl::Status& status);

  const Transformer& transformer_;
  const PrefillEngineOptions options_;
  const std::unique_ptr<PagedKvCache> cache_;

  // Of the thread.
  const std::unique_ptr<Transformer::Workspace> workspace_;
  EncoderCache encoders_;
  PrefillTurns turns_;

  mutable absl::Mutex mutex_;
  SharedPrefixes shared_ ABSL_GUARDED_BY(mutex_);
  Entries queue_ ABSL_GUARDED_BY(mutex_);
  // What is in an entry belongs to the thread while it is running_, else to the lock's holder; which pages it
  // has changes under the lock.
  Entries active_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Entry> running_ ABSL_GUARDED_BY(mutex_);
  std::int64_t prefilled_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t skipped_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t prefix_hits_ ABSL_GUARDED_BY(mutex_) = 0;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::jthread thread_;  // last: it uses everything above
};

}  // namespace scd

#endif  // SCD_PRODUCER_PREFILL_ENGINE_H_
