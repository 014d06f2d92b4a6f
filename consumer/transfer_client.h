// The seam between the engine and what moves a prompt's state here: a TransferClient fills positions [begin,
// end) of a sequence's pages from somewhere else.
//
// A transfer ends exactly once, and only after nobody writes into its sequence any more. A failed transfer
// marks nothing valid, so that nothing can be decoded from it.
#ifndef SCD_CONSUMER_TRANSFER_CLIENT_H_
#define SCD_CONSUMER_TRANSFER_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/cache/sequence.h"
#include "common/config/layer_plan.h"
#include "common/trace/request_trace.h"
#include "consumer/transfer_reason.h"

namespace scd {

// Positions [begin, end) of a prompt.
struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool empty() const { return begin >= end; }
  std::int64_t size() const { return empty() ? 0 : end - begin; }
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

// What a transfer brought and what it took. Times are milliseconds; the producer's come from its trailer.
struct TransferStats {
  std::uint64_t received_bytes = 0;                      // serialized messages
  std::map<CodeKind, std::uint64_t> code_bytes_by_kind;  // payload of frames
  std::int64_t stored_tokens = 0;                        // taken from a code store
  std::int64_t shared_store_tokens = 0;        // of these, by this consumer itself, without a producer
  std::int64_t producer_prefilled_tokens = 0;  // rows that the producer's model ran
  double producer_queue_ms = 0;
  double producer_prefill_ms = 0;
  double producer_encode_ms = 0;
  double first_frame_ms = 0;  // start of the transfer -> first frame
  double transfer_ms = 0;     // start of the transfer -> last frame
  double rebuild_ms = 0;      // rebuilding, without waiting
  double total_ms = 0;        // start of the transfer -> its end

  std::uint64_t code_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [kind, bytes] : code_bytes_by_kind) sum += bytes;
    return sum;
  }
};

struct TransferResult {
  TransferOutcome outcome;
  // Where it succeeded: positions that are valid now. Begins where it was asked to; may end before that was
  // asked for.
  TokenRange range;
  TransferStats stats;
};

struct TransferJob {
  std::string request_id;  // for logs, here and at the producer
  std::shared_ptr<const std::vector<std::int32_t>> prompt;
  LayerPlan plan;
  TokenRange range;  // not empty; end < prompt->size()
  absl::Time deadline = absl::InfiniteFuture();
  std::int64_t max_uncoded_tokens = 0;  // before range.end that may stay empty
  bool no_code_store = false;           // a fresh prefill of everything
  bool connect_anew = false;            // a producer that was away just now is tried once more, at once
  std::shared_ptr<RequestTrace> trace;  // null: not traced
  std::shared_ptr<Sequence> sequence;
  // Called exactly once, from a thread of the client, never from inside Start or Cancel.
  std::function<void(const TransferResult&)> done;
};

// A transfer that runs.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Asks it to end soon; `done` still comes (with kCancelled unless it had ended before). Any thread, any
  // number of times.
  virtual void Cancel() = 0;
};

class TransferClient {
 public:
  // Waits for transfers that run: Cancel them first.
  virtual ~TransferClient() = default;
  // Does not block. Errors come through `done`.
  virtual std::shared_ptr<Transfer> Start(TransferJob job) = 0;
};

}  // namespace scd

#endif  // SCD_CONSUMER_TRANSFER_CLIENT_H_
