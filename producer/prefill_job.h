// One prefill as the engine sees it: what to run, and where its codes go.
#ifndef SCD_PRODUCER_PREFILL_JOB_H_
#define SCD_PRODUCER_PREFILL_JOB_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/bundle/bundle.h"
#include "common/config/layer_plan.h"
#include "common/io/digest.h"
#include "common/wire/layer_code.h"

namespace scd {

struct PrefillInput {
  const Bundle* bundle = nullptr;
  LayerPlan plan;                       // checked by the bundle
  std::vector<std::int32_t> token_ids;  // from position 0; every id is in the vocabulary
  std::int64_t first_token = 0;         // codes are wanted from here to the end
  std::vector<Digest> block_keys;       // names for the code store; empty: nothing is stored
};

struct PrefillTimings {
  double queue_ms = 0;    // from Submit until the first forward pass began
  double prefill_ms = 0;  // forward passes, encoding included
  double encode_ms = 0;   // encoding alone
};

// The calls come one at a time, from the engine's thread or that of PrefillEngine::Cancel. None may block or
// call the engine.
class PrefillJob {
 public:
  virtual ~PrefillJob() = default;

  virtual const PrefillInput& input() const = 0;

  // Whether the codes of another chunk may be delivered. While it may not, the job pauses;
  // PrefillEngine::Wake makes the engine ask again.
  virtual bool HasRoom() const = 0;
  virtual void Deliver(LayerCode code) = 0;
  // The last call, exactly once; the prompt's pages are free again. CANCELLED, UNAVAILABLE (the
  // engine ends) or an error of the model.
  virtual void Complete(const absl::Status& status, const PrefillTimings& timings) = 0;
};

}  // namespace scd

#endif  // SCD_PRODUCER_PREFILL_JOB_H_
