// The subcommands of scd-eval. Each adds what it measured to run.results, row by row, so that a run that ends
// early leaves what it had.
#ifndef SCD_EVAL_COMMANDS_H_
#define SCD_EVAL_COMMANDS_H_

#include "absl/status/status.h"
#include "eval/eval_run.h"
#include "eval/measurement.h"

namespace scd {

absl::Status RunPpl(EvalRun& run);
absl::Status RunQa(EvalRun& run);
absl::Status RunDivergence(EvalRun& run);
absl::Status RunTable(EvalRun& run);
absl::Status RunLatency(EvalRun& run);
absl::Status RunAblate(EvalRun& run);
absl::Status RunDriftCommand(EvalRun& run);

// Every configured row with the selected figures.
absl::Status MeasureRows(EvalRun& run, const MeasureSelection& selection);

}  // namespace scd

#endif  // SCD_EVAL_COMMANDS_H_
