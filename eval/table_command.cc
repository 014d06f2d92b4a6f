// Every figure of every row.
#include "eval/commands.h"

namespace scd {

absl::Status RunTable(EvalRun& run) {
  return MeasureRows(run, {.ready_questions = run.config.eval.ready_questions});
}

}  // namespace scd
