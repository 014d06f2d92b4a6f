// Reads the windows and questions that the configuration names.
#ifndef SCD_EVAL_LOAD_DATA_H_
#define SCD_EVAL_LOAD_DATA_H_

#include "absl/status/statusor.h"
#include "common/server/log.h"
#include "eval/config.h"
#include "eval/eval_data.h"

namespace scd {

// What a subcommand measures on; the rest is not read.
struct DataNeed {
  bool windows = true;
  bool questions = true;
};

// NOT_FOUND, INVALID_ARGUMENT naming file and record. Records that are left out are told to the log.
absl::StatusOr<EvalData> LoadEvalData(const EvalConfig& config, const DataNeed& need, Log& log);

}  // namespace scd

#endif  // SCD_EVAL_LOAD_DATA_H_
