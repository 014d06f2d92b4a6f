// How far each way is from native prefill: KL, total variation, first token that differs.
#include "eval/commands.h"

namespace scd {

absl::Status RunDivergence(EvalRun& run) {
  return MeasureRows(run, {.windows = true, .answers = true, .answer_kl = true, .ready_questions = 0});
}

}  // namespace scd
