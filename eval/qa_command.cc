// F1 and exact match of greedy answers, with the times to their first tokens.
#include "eval/commands.h"

namespace scd {

absl::Status RunQa(EvalRun& run) {
  return MeasureRows(run, {.windows = false, .answers = true, .answer_kl = false, .ready_questions = 0});
}

}  // namespace scd
