#include "consumer/transfer_decision.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace scd {

TokenRange RangeToTransfer(const LayerPlan& plan, std::int64_t prompt_tokens) {
  const TokenRange range{plan.native_head, prompt_tokens - 1 - plan.native_tail};
  return range.empty() ? TokenRange{} : range;
}

TokenRange MissingRange(const TokenRange& range, std::int64_t num_known, std::int64_t max_uncoded_tokens) {
  if (num_known <= range.begin) return range;
  const TokenRange missing{num_known, range.end};
  return missing.size() <= max_uncoded_tokens ? TokenRange{} : missing;
}

absl::StatusOr<TransferDecision> DecideTransfer(const LayerPlan& plan, TransferPolicy policy,
                                                absl::Span<const std::int32_t> prompt,
                                                absl::Span<const std::int32_t> untranslatable) {
  TransferDecision decision;
  if (policy == TransferPolicy::kOff) {
    decision.outcome = {TransferReason::kPolicyOff, absl::FailedPreconditionError("the policy is off")};
    return decision;
  }
  const auto num_tokens = static_cast<std::int64_t>(prompt.size());
  const TokenRange range = RangeToTransfer(plan, num_tokens);
  if (range.empty()) {
    decision.outcome = {
        TransferReason::kShortPrompt,
        absl::FailedPreconditionError(absl::StrCat("native head ", plan.native_head, ", native tail ",
                                                   plan.native_tail, " and the last token leave nothing of ",
                                                   num_tokens, " prompt tokens to transfer"))};
    return decision;
  }
  for (std::int64_t position = 0; position < range.end; ++position) {
    const std::int32_t id = prompt[static_cast<std::size_t>(position)];
    if (!std::binary_search(untranslatable.begin(), untranslatable.end(), id)) continue;
    decision.outcome = {TransferReason::kUntranslatableToken,
                        absl::FailedPreconditionError(absl::StrCat("token ", id, " at position ", position,
                                                                   " has no counterpart in the producer's "
                                                                   "vocabulary"))};
    if (policy == TransferPolicy::kRequire) return StatusForRequiredTransfer(decision.outcome);
    return decision;
  }
  decision.range = range;
  return decision;
}

}  // namespace scd
