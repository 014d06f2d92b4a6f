// Perplexity of continuations, and what comes with it: KL and total variation of the same positions.
#include "eval/commands.h"

namespace scd {

absl::Status RunPpl(EvalRun& run) {
  return MeasureRows(run, {.windows = true, .answers = false, .answer_kl = false, .ready_questions = 0});
}

}  // namespace scd
