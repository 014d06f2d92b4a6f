// Measures how far the consumer's state drifts from its own when its prefix KV is rebuilt from the producer's
// codes: K and V layer by layer, and the residual stream of the positions that it decodes over them.
//
// Encoding, rebuilding and decoding are those that serve. A prompt is split as the plan says: native head,
// transferred positions, native tail and last token; the last token and the teacher-forced continuation are
// the decode positions.
#ifndef SCD_EVAL_DRIFT_DRIFT_PROBE_H_
#define SCD_EVAL_DRIFT_DRIFT_PROBE_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/bundle/bundle.h"
#include "common/config/layer_plan.h"
#include "common/model/transformer.h"
#include "eval/drift/drift_sums.h"

namespace scd {

struct DriftLimits {
  std::int64_t max_prompt_tokens = 0;
  std::int64_t max_continuation_tokens = 0;
  std::int64_t pass_tokens = 512;  // of the transferred part in one forward pass
};

class DriftProbe {
 public:
  // Both models are on one backend and outlive this; the bundle may go away. plans: Reuse and Patch only, all
  // with the same native ranges. INVALID_ARGUMENT says which plan cannot be measured and why,
  // FAILED_PRECONDITION where the models do not have the shape that the bundle was fitted for.
  static absl::StatusOr<std::unique_ptr<DriftProbe>> Create(const Transformer& producer,
                                                            const Transformer& consumer, const Bundle& bundle,
                                                            absl::Span<const LayerPlan> plans,
                                                            const DriftLimits& limits);
  virtual ~DriftProbe() = default;

  // One prompt, then `continuation`, teacher-forced: 1 + its size decode positions. One result for each plan,
  // in their order. INVALID_ARGUMENT for a prompt that leaves nothing to transfer, for ids that a model lacks
  // or the bundle cannot translate; OUT_OF_RANGE beyond the limits; CANCELLED.
  virtual absl::StatusOr<std::vector<DriftSums>> Measure(absl::Span<const std::int32_t> prompt,
                                                         absl::Span<const std::int32_t> continuation,
                                                         std::stop_token stop = {}) = 0;
};

}  // namespace scd

#endif  // SCD_EVAL_DRIFT_DRIFT_PROBE_H_
