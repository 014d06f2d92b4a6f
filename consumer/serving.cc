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
  EngineRequest& request = prompt.engine;
  request.max_wait_for_blocks = absl::ToChronoMilliseconds(choice.timeout);
  if (choice.mode == kLocalMode) {
    if (!choice.no_prefix_cache) request.block_keys = prefix_keys.Native(request.prompt);
    return absl::OkStatus();
  }
  prompt.mode = choice.mode;
  prompt.transfers = transfers;
  SCD_ASSIGN_OR_RETURN(prompt.decision,
                       DecideTransfer(choice.plan, choice.policy, request.prompt, untranslatable_ids));
  if (choice.no_prefix_cache) return absl::OkStatus();
  const TokenRange& range = prompt.decision.range;
  request.block_keys =
      range.empty() ? prefix_keys.Native(request.prompt)
                    : prefix_keys.Rebuilt(
                          choice.mode, choice.plan,
                          absl::MakeConstSpan(request.prompt).first(static_cast<std::size_t>(range.end)));
  return absl::OkStatus();
}

}  // namespace scd
