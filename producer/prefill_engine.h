// Runs prefills of the base model on one thread, in the order in which they came, and hands out their codes
// as each layer of each chunk of tokens is done.
//
// A job waits in a bounded queue until the KV cache has room for its prompt, then runs chunk by chunk. The
// engine never waits for a reader: a job without room for another chunk's codes pauses and the next one runs.
// So a slow reader slows only itself, and one that stalls is ended.
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
#include "absl/time/time.h"
#include "common/cache/paged_kv_cache.h"
#include "common/model/transformer.h"
#include "producer/code_store.h"
#include "producer/encoder_cache.h"
#include "producer/prefill_job.h"

namespace scd {

struct PrefillEngineOptions {
  std::int64_t chunk_tokens = 256;
  std::int64_t kv_tokens = 8192;  // of all prompts in work
  std::int64_t page_tokens = 32;
  std::int64_t max_queued_requests = 64;
  std::int64_t max_cached_plans = 8;
  std::int64_t block_tokens = 64;  // of the code store
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
  // that was taken hears Complete.
  absl::Status Submit(std::shared_ptr<PrefillJob> job);
  // Ends a job with CANCELLED: at once where it waits or pauses, within one layer where it runs. Jobs that
  // are not there (any more) are ignored.
  void Cancel(const PrefillJob& job);
  // A job got room.
  void Wake();

  struct Stats {
    std::int64_t num_queued = 0;  // not started
    std::int64_t num_active = 0;  // with pages
    std::int64_t pages_used = 0;
    std::int64_t pages_total = 0;
  };
  Stats stats() const;

 private:
  struct Entry;
  using Entries = std::list<std::shared_ptr<Entry>>;

  PrefillEngine(const Transformer& transformer, const PrefillEngineOptions& options, CodeStore* store,
                std::unique_ptr<PagedKvCache> cache, std::unique_ptr<Transformer::Workspace> workspace);

  void Run(const std::stop_token& stop);
  // Gives queued jobs their pages, as far as there are any.
  void Activate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first active job that has room, as running_; null where there is none.
  std::shared_ptr<Entry> PickRunnable();
  bool CanStore(const LayerPlan& plan) const;
  // Where the next chunk ends: its codes hold whole granules, but for the last of the prompt.
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
  CodeStore* const store_;
  const std::unique_ptr<PagedKvCache> cache_;

  // Of the thread.
  const std::unique_ptr<Transformer::Workspace> workspace_;
  EncoderCache encoders_;

  mutable absl::Mutex mutex_;
  Entries queue_ ABSL_GUARDED_BY(mutex_);
  // With pages. What is in an entry belongs to the thread while it is running_, else to the lock's holder.
  Entries active_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Entry> running_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::jthread thread_;  // last: it uses everything above
};

}  // namespace scd

#endif  // SCD_PRODUCER_PREFILL_ENGINE_H_
