// What every subcommand is lent, and where it puts what it measured.
#ifndef SCD_EVAL_EVAL_RUN_H_
#define SCD_EVAL_EVAL_RUN_H_

#include <memory>
#include <ostream>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/server/log.h"
#include "common/server/progress.h"
#include "eval/config.h"
#include "eval/eval_data.h"
#include "eval/options.h"
#include "eval/results.h"
#include "eval/running_pair.h"

namespace scd {

// Standard streams and the interrupt of one run.
struct EvalTerminal {
  std::ostream& out;
  std::ostream& err;
  std::stop_token stop;
  bool is_terminal = false;    // standard error is one: progress is a bar
  std::string program_folder;  // of scd-eval and the programs beside it
};

struct EvalRun {
  const EvalOptions& options;
  EvalConfig config;
  const EvalTerminal& terminal;
  Log& log;
  ProgressStyle progress;
  EvalData data;
  Results results;  // what is here when a command ends is written, however it ends
};

// The pair of config, described in run.results.
absl::StatusOr<std::unique_ptr<RunningPair>> OpenPair(EvalRun& run, const EvalConfig& config);

// The rows without those of mode fused where the pair's bundle has no such translators: it says so. Whoever
// asks for nothing else gets an error.
std::vector<ModeRow> RowsOfTheBundle(const PairSession& session, std::vector<ModeRow> rows, Log& log);

// Every row with its plan, before anything is measured.
absl::StatusOr<std::vector<ResolvedRow>> ResolveRows(const PairSession& session,
                                                     const std::vector<ModeRow>& rows);

}  // namespace scd

#endif  // SCD_EVAL_EVAL_RUN_H_
