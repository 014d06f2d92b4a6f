#include <cstdint>
#include <utility>

#include "eval/commands.h"
#include "kernels/status_macros.h"

namespace scd {

absl::Status MeasureRows(EvalRun& run, const MeasureSelection& selection) {
  SCD_ASSIGN_OR_RETURN(const auto pair, OpenPair(run, run.config));
  PairSession& session = pair->session();
  SCD_ASSIGN_OR_RETURN(
      const std::vector<ResolvedRow> rows,
      ResolveRows(session, RowsOfTheBundle(session, RepeatForCodecs(run.config.rows, run.config.eval.codecs),
                                           run.log)));
  Progress* shown = nullptr;
  Measurement measurement(session, run.data, {run.config.eval.max_tokens, run.config.eval.stop}, selection,
                          [&shown] { shown->Add(1); });
  Progress progress(run.log, run.progress, EvalCommandName(run.options.command), "requests",
                    measurement.NumRequests(rows));
  shown = &progress;
  for (const ResolvedRow& row : rows) {
    auto figures = measurement.Measure(row);
    SCD_RETURN_IF_ERROR(pair->Explain(figures.status()));
    run.results.modes.push_back(*std::move(figures));
  }
  return absl::OkStatus();
}

}  // namespace scd
