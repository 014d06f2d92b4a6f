// Whether a prompt's state is transferred, and which positions of it.
#ifndef SCD_CONSUMER_TRANSFER_DECISION_H_
#define SCD_CONSUMER_TRANSFER_DECISION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/config/layer_plan.h"
#include "common/config/policy.h"
#include "consumer/transfer_client.h"
#include "consumer/transfer_reason.h"

namespace scd {

struct TransferDecision {
  // Empty: the prompt is served natively; `outcome` says why that is not what was asked for (kNone: it is).
  TokenRange range;
  TransferOutcome outcome;
};

// The positions of a prompt that its plan leaves to the producer: all but the native head, the native tail
// and the last token. Empty for a prompt too short.
TokenRange RangeToTransfer(const LayerPlan& plan, std::int64_t prompt_tokens);

// What of `range` is still to be transferred where positions [0, num_known) are there already. Empty where
// nothing is, and where no more is than may stay uncoded: then this model computes the rest over what is
// there, which spares the producer the call.
TokenRange MissingRange(const TokenRange& range, std::int64_t num_known, std::int64_t max_uncoded_tokens);

// For a prompt that is asked for in a mode that transfers. `untranslatable`: sorted ids. A prompt too short
// is native under every policy; one with an untranslatable id in the range that the producer would see is an
// error under `require` (StatusForRequiredTransfer) and native under `prefer`.
absl::StatusOr<TransferDecision> DecideTransfer(const LayerPlan& plan, TransferPolicy policy,
                                                absl::Span<const std::int32_t> prompt,
                                                absl::Span<const std::int32_t> untranslatable);

}  // namespace scd

#endif  // SCD_CONSUMER_TRANSFER_DECISION_H_
