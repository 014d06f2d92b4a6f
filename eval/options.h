// What the command line of scd-eval asks for.
#ifndef SCD_EVAL_OPTIONS_H_
#define SCD_EVAL_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace scd {

// What the program returns to its caller; the first four as scd-client's.
enum class EvalExit : int {
  kOk = 0,
  kFailed = 1,  // a request, a daemon, a file, or a transfer that was not what it should be
  kUsage = 2,   // command line or configuration
  kUnreachable = 3,
  kInterrupted = 4,  // what was measured until then is written
};

enum class EvalCommand { kPpl, kQa, kDivergence, kLatency, kTable, kAblate, kDrift, kReport };
// "ppl", "qa", ...
const char* EvalCommandName(EvalCommand command);

struct EvalOptions {
  EvalCommand command = EvalCommand::kTable;
  std::string config_path = "configs/eval.yaml";
  std::vector<std::string> overrides;     // the texts after --set, in order, those of the shorthands last
  std::vector<std::string> producer_set;  // after daemons.producer_set of the configuration
  std::vector<std::string> consumer_set;
  std::optional<std::string> json_path;      // where the results document goes
  std::optional<std::string> report_folder;  // where report.html, report.md and results.json go
  bool quiet = false;                        // no progress, no table
  bool check = false;                        // configuration and data alone
  double link_mbit_s = 0;                    // latency: of the link between the daemons; 0: loopback
  std::vector<std::string> documents;        // report: what is merged
};

// Either options, or what to print and how to end (help and usage errors).
struct ParsedEvalCommandLine {
  std::optional<EvalOptions> options;
  std::string message;
  EvalExit exit = EvalExit::kOk;
};

// `arguments` without the program's name.
ParsedEvalCommandLine ParseEvalCommandLine(const std::vector<std::string>& arguments);

}  // namespace scd

#endif  // SCD_EVAL_OPTIONS_H_
