// Decides what the engine runs in one step: which sequences decode together, and which native chunks run
// beside them.
//
// Every step runs at most one decode batch and at most prefill_chunk_tokens native rows, so neither kind of
// work can hold the other up for longer than one step of it. Not thread-safe: the engine's thread owns it.
#ifndef SCD_CONSUMER_SCHEDULER_H_
#define SCD_CONSUMER_SCHEDULER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace scd {

// Native rows of one request: those it still needs, or those it may run in a step.
struct NativeRows {
  std::uint64_t request = 0;
  std::int64_t rows = 0;

  friend bool operator==(const NativeRows&, const NativeRows&) = default;
};

class Scheduler {
 public:
  // Both at least 1.
  Scheduler(std::int64_t max_batch_sequences, std::int64_t prefill_chunk_tokens)
      : max_batch_sequences_(max_batch_sequences), prefill_chunk_tokens_(prefill_chunk_tokens) {}

  // The requests to decode in this step, of `decoding` (sorted). Where they are too many for one batch they
  // take turns.
  std::vector<std::uint64_t> NextDecodeBatch(absl::Span<const std::uint64_t> decoding);

  // Shares this step's native rows among `waiting` (oldest first, rows at least 1 each): the shortest first,
  // because the few rows that a staged request computes itself should not wait for another's long prompt; in
  // every other step the oldest first, so that it cannot be overtaken for ever.
  std::vector<NativeRows> NextNative(absl::Span<const NativeRows> waiting);

 private:
  const std::int64_t max_batch_sequences_;
  const std::int64_t prefill_chunk_tokens_;
  std::uint64_t last_decoded_ = 0;  // the last request of the last batch
  bool oldest_first_ = true;
};

}  // namespace scd

#endif  // SCD_CONSUMER_SCHEDULER_H_
