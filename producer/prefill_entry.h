// A job inside the prefill engine.
#ifndef SCD_PRODUCER_PREFILL_ENTRY_H_
#define SCD_PRODUCER_PREFILL_ENTRY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>

#include "absl/time/time.h"
#include "common/cache/sequence.h"
#include "common/store/stored_codes.h"
#include "common/trace/request_trace.h"
#include "producer/code_collector.h"
#include "producer/encoder_cache.h"
#include "producer/prefill_job.h"

namespace scd {

struct PrefillEntry {
  std::shared_ptr<PrefillJob> job;
  absl::Time submitted;
  std::stop_source cancel;
  std::optional<TraceSpan> queued;  // until it has started
  StoredCodes known;                // that the store knew before; until it is active
  // Codes of positions before it are not wanted, or were delivered already, be it before their state is
  // there.
  std::int64_t coded_end = 0;

  // Since it is active. Pages for positions [0, position), and for the chunk that runs; null before the
  // first.
  std::unique_ptr<Sequence> sequence;
  std::int64_t position = 0;    // tokens before it are done
  bool started = false;         // a chunk ran, or blocks were taken
  std::int64_t num_chunks = 0;  // that were begun
  ReadyEncoder encoder;         // from the first chunk on
  // Codes of chunks on their way into blocks of the store, the next of which has this index of code_keys;
  // where there are any to store.
  std::optional<CodeCollector> collector;
  std::size_t next_code_block = 0;
  PrefillReport report;

  std::int64_t num_tokens() const { return static_cast<std::int64_t>(job->input().token_ids.size()); }
  std::int64_t rows_left() const { return num_tokens() - position; }
  std::int64_t num_pages() const { return sequence == nullptr ? 0 : sequence->num_pages(); }
};

}  // namespace scd

#endif  // SCD_PRODUCER_PREFILL_ENTRY_H_
