// One prefill as the engine sees it: what to run, and where its codes go.
#ifndef SCD_PRODUCER_PREFILL_JOB_H_
#define SCD_PRODUCER_PREFILL_JOB_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/bundle/bundle.h"
#include "common/config/layer_plan.h"
#include "common/io/digest.h"
#include "common/store/stored_codes.h"
#include "common/trace/request_trace.h"
#include "common/wire/layer_code.h"

namespace scd {

struct PrefillInput {
  const Bundle* bundle = nullptr;
  LayerPlan plan;                       // checked by the bundle
  std::vector<std::int32_t> token_ids;  // from position 0; every id is in the vocabulary
  std::int64_t first_token = 0;         // codes are wanted from here to the end
  // Names of the whole blocks of the prompt: of KV pages, from position 0, and of codes, from the block that
  // holds first_token (code_keys.h). Without page keys nothing is shared with other requests, without code
  // keys no codes are stored.
  std::vector<Digest> page_keys = {};
  std::vector<Digest> code_keys = {};
  std::shared_ptr<RequestTrace> trace = nullptr;  // null: not traced
};

struct PrefillReport {
  double queue_ms = 0;    // from Submit until pages were there
  double prefill_ms = 0;  // forward passes, encoding included
  double encode_ms = 0;   // encoding alone
  // Positions of the prompt by where their state came from.
  std::int64_t num_prefilled_tokens = 0;  // run through the model for this job
  std::int64_t num_cached_tokens = 0;     // KV pages of others were taken
  // Codes were wanted, and came from the store, whether or not the positions were run for their state.
  std::int64_t num_stored_tokens = 0;
};

// The calls come one at a time, from the engine's thread or that of a caller of the engine. None may block or
// call the engine.
class PrefillJob {
 public:
  virtual ~PrefillJob() = default;

  virtual const PrefillInput& input() const = 0;

  // The job has its pages; the first call. So many codes are known already; they are delivered next.
  virtual void Begin(std::int64_t num_stored_tokens) = 0;
  // Whether more codes may be delivered. While not, the job pauses; PrefillEngine::Wake makes the engine ask
  // again.
  virtual bool HasRoom() const = 0;
  // Codes in the order of their positions: of one chunk and column, or of known blocks.
  virtual void Deliver(LayerCode code) = 0;
  virtual void DeliverStored(StoredCodes codes) = 0;
  // The last call, exactly once; the prompt's pages are free again. CANCELLED, UNAVAILABLE (the
  // engine ends) or an error of the model.
  virtual void Complete(const absl::Status& status, const PrefillReport& report) = 0;
};

}  // namespace scd

#endif  // SCD_PRODUCER_PREFILL_JOB_H_
