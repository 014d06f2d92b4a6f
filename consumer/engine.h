// The consumer's engine: owns the transformer and the KV pages, admits requests, runs their native parts, and
// decodes all of them together in one continuous batch on one thread.
//
// A request's life:  queued -> admitted (pages reserved, known blocks taken over) -> staging (codes are
// rebuilt by another thread into its sequence, the native head runs meanwhile) -> native rest (prefill of
// every position that is not valid yet, in chunks) -> decoding or scoring -> done. A native request has
// nothing to stage. New requests join between steps. Where pages run out the youngest are moved to host
// memory and go on later (consumer/request_table.h).
#ifndef SCD_CONSUMER_ENGINE_H_
#define SCD_CONSUMER_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cache/sequence.h"
#include "common/io/digest.h"
#include "common/model/transformer.h"
#include "common/trace/request_trace.h"
#include "consumer/sampler.h"

namespace scd {

enum class FinishReason : std::uint8_t { kStopToken, kMaxTokens, kStopped };

struct EngineTimings {
  double queue_ms = 0;            // submit -> admitted
  double native_prefill_ms = 0;   // running native positions of the prompt, without waiting
  double first_token_ms = 0;      // submit -> first token
  double decode_ms = 0;           // first token -> last token
  std::int64_t num_computed = 0;  // prompt positions that the engine computed natively
  std::int64_t num_cached = 0;    // prompt positions that were taken over from the cache
};

using EngineRequestId = std::uint64_t;

// How a request hears from the engine. All calls come from the engine's thread, in order, and must not block.
// After OnDone nothing is called any more. A request that ends while it is queued hears only OnDone.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // Pages are reserved, and positions [0, sequence->valid_length()) are there already; staged requests start
  // rebuilding the rest now. Whoever writes into `sequence` from another
  // thread holds a share of it for as long as it writes, so that no page is given to another request under a
  // writer's hands. The engine gives its own share back before OnDone: the pages are free when the last share
  // is gone. No share may outlive the engine. `id` is what Submit returns (this may be called before it
  // returned).
  virtual void OnAdmitted(EngineRequestId id, std::shared_ptr<Sequence> sequence) = 0;
  // Just before it: for how long the request waited for blocks that another was making.
  virtual void OnWaitedForBlocks(std::chrono::nanoseconds /*waited*/) {}
  // One token of a Generate request. Returns false to end it (kStopped), for example after a stop string.
  virtual bool OnToken(const SampledToken& token) = 0;
  // Logits [rows, vocabulary] f32 of a Score request from score position first_row on, valid during the call.
  virtual void OnLogits(std::int64_t first_row, ConstTensorView logits) = 0;
  // OK with the reason, or the error (CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, the status given to
  // Fail, INTERNAL). The engine holds no page of the request any more.
  virtual void OnDone(const absl::Status& status, FinishReason reason, const EngineTimings& timings) = 0;
};

struct EngineRequest {
  std::vector<std::int32_t> prompt;
  // Positions [staged_begin, staged_end) arrive from elsewhere: the engine computes [0, staged_begin) at once
  // and the rest after Staged(). Equal: nothing is staged. staged_end <= prompt.size() - 1.
  std::int64_t staged_begin = 0;
  std::int64_t staged_end = 0;

  // Keys of whole blocks at the prompt's beginning (common/cache/block_keys.h), inside [0, staged_end) of a
  // staged request: those that are known are taken over, the others made known once they are there. Empty: it
  // shares nothing.
  std::vector<Digest> block_keys;
  // How long it waits at most for another request that is making a block it lacks; then it makes its own.
  std::chrono::milliseconds max_wait_for_blocks{30000};

  // Generate: max_tokens > 0. Score: `continuation` is teacher-forced and logits of the last prompt position
  // and of every continuation position go to OnLogits (continuation.size() + 1 rows).
  bool score = false;
  std::vector<std::int32_t> continuation;
  std::int64_t max_tokens = 0;
  SamplingParams sampling;
  std::vector<std::int32_t> stop_token_ids;  // not sent to OnToken

  std::shared_ptr<RequestTrace> trace;  // null: not traced
};

struct EngineOptions {
  std::int64_t num_pages = 0;
  std::int64_t page_tokens = 32;
  DType kv_dtype = DType::kF32;             // f32, bf16 or i8
  std::int64_t swap_bytes = 0;              // host memory for pages of requests that had to give theirs up
  std::int64_t max_batch_sequences = 16;    // decoded together
  std::int64_t prefill_chunk_tokens = 256;  // native prefill rows per step, so that decode of others goes on
  std::int64_t max_queued_requests = 64;    // beyond: RESOURCE_EXHAUSTED at once
};

class Engine {
 public:
  using RequestId = EngineRequestId;

  // Starts the engine's thread. `transformer` outlives this.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const Transformer& transformer,
                                                        const EngineOptions& options);

  // Device memory that Create takes besides the pages, but for its stream's.
  static std::int64_t WorkspaceBytes(const Transformer& transformer, const EngineOptions& options);

  // Cancels what is left and joins the thread.
  virtual ~Engine() = default;

  // INVALID_ARGUMENT (empty prompt, ids outside the vocabulary, sampling, longer than max_positions or than
  // all pages), RESOURCE_EXHAUSTED (queue full), UNAVAILABLE (shutting down). The observer lives until OnDone
  // returned.
  virtual absl::StatusOr<RequestId> Submit(EngineRequest request,
                                           std::shared_ptr<EngineObserver> observer) = 0;

  // Staged, ComputeNatively and Fail may be called from any thread, also from inside an observer's call.

  // Codes of [staged_begin, end), or of what of it was not there already, are rebuilt and marked valid; end
  // <= staged_end, the rest is computed natively.
  virtual void Staged(RequestId id, std::int64_t end) = 0;
  // Gives up staging: everything not valid is computed natively ("prefer"). The caller's writers have let go
  // of the sequence before.
  virtual void ComputeNatively(RequestId id) = 0;
  // Ends a request wherever it is, with this status; takes effect within one layer of a forward pass. Unknown
  // or finished ids are ignored.
  virtual void Fail(RequestId id, const absl::Status& status) = 0;

  struct Stats {
    std::int64_t pages_used = 0;
    std::int64_t pages_total = 0;
    std::int64_t requests_queued = 0;
    std::int64_t requests_running = 0;
    std::int64_t requests_swapped = 0;  // of the running ones, those whose pages are in host memory
    std::int64_t pages_indexed = 0;     // whose blocks are known, used or not
    // Since the start.
    std::int64_t pages_evicted = 0;
    std::int64_t preemptions = 0;
    std::int64_t swapped_bytes = 0;
  };
  virtual Stats stats() const = 0;
};

}  // namespace scd

#endif  // SCD_CONSUMER_ENGINE_H_
