#include "consumer/serving.h"

#include "common/config/transfer_modes.h"
#include "consumer/transfer_decision.h"
#include "kernels/status_macros.h"

namespace scd {

absl::Status Serving::Decide(const TransferChoice& choice, PromptToServe& prompt) const {
  prompt.policy = choice.policy;
  prompt.plan = choice.plan;
  prompt.transfer_timeout = choice.timeout;
  prompt.max_uncoded_tokens = max_uncoded_tokens;
  prompt.no_code_store = choice.no_code_store;
  if (choice.mode == kLocalMode) return absl::OkStatus();
  prompt.mode = choice.mode;
  prompt.transfers = transfers;
  SCD_ASSIGN_OR_RETURN(prompt.decision,
                       DecideTransfer(choice.plan, choice.policy, prompt.engine.prompt, untranslatable_ids));
  return absl::OkStatus();
}

}  // namespace scd
