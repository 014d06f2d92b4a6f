#include "eval/run_eval.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "eval/commands.h"
#include "eval/load_data.h"
#include "eval/merge_results.h"
#include "eval/report_writer.h"
#include "eval/text_table.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Lines that say nothing below an error are dropped.
class QuietLog final : public Log {
 public:
  void Write(LogLevel, std::string_view) override {}
};

EvalExit Fail(const EvalTerminal& terminal, EvalExit exit, const absl::Status& status) {
  std::string message(status.message());
  while (!message.empty() && message.back() == '\n') message.pop_back();
  terminal.err << "scd-eval: " << message << std::endl;
  return exit;
}

absl::Status RunCommand(EvalRun& run) {
  switch (run.options.command) {
    case EvalCommand::kPpl:
      return RunPpl(run);
    case EvalCommand::kQa:
      return RunQa(run);
    case EvalCommand::kDivergence:
      return RunDivergence(run);
    case EvalCommand::kLatency:
      return RunLatency(run);
    case EvalCommand::kTable:
      return RunTable(run);
    case EvalCommand::kAblate:
      return RunAblate(run);
    case EvalCommand::kDrift:
      return RunDriftCommand(run);
    case EvalCommand::kReport:
      break;
  }
  return absl::InternalError("report measures nothing");
}

// How the program ends where a command ended so. Unreachable: the pair that was to run already is not there.
EvalExit ExitOf(const EvalRun& run, const absl::Status& status) {
  if (status.ok()) return EvalExit::kOk;
  if (absl::IsCancelled(status) && run.terminal.stop.stop_requested()) return EvalExit::kInterrupted;
  const bool unreachable =
      absl::IsUnavailable(status) && !run.config.consumer.empty() && run.results.pair.num_layers == 0;
  return unreachable ? EvalExit::kUnreachable : EvalExit::kFailed;
}

DataNeed NeedOf(EvalCommand command) {
  switch (command) {
    case EvalCommand::kPpl:
    case EvalCommand::kLatency:
    case EvalCommand::kDrift:
      return {.windows = true, .questions = false};
    case EvalCommand::kQa:
      return {.windows = false, .questions = true};
    default:
      return {.windows = true, .questions = true};
  }
}

void DescribeRun(EvalRun& run, const std::vector<std::string>& arguments) {
  Results& results = run.results;
  results.created = UtcNow();
  results.commands = {absl::StrCat("scd-eval ", absl::StrJoin(arguments, " "))};
  results.machine = ThisMachine();
  DataDescription& data = results.data;
  data.window_source = run.data.window_source;
  data.num_windows = static_cast<std::int64_t>(run.data.windows.size());
  for (const EvalWindow& window : run.data.windows) {
    data.num_scored_tokens += static_cast<std::int64_t>(window.continuation.size());
  }
  data.question_source = run.data.question_source;
  data.num_questions = static_cast<std::int64_t>(run.data.questions.size());
  data.max_tokens = run.config.eval.max_tokens;
}

// The document goes where it was asked for, even when the run was interrupted: the stop is not for writing.
absl::Status WriteOutputs(const EvalRun& run, const nlohmann::ordered_json& document) {
  if (run.options.json_path) SCD_RETURN_IF_ERROR(WriteResults(document, *run.options.json_path));
  if (!run.options.report_folder) return absl::OkStatus();
  return WriteReport(document, run.config.report, *run.options.report_folder, {});
}

absl::Status CheckOutputs(const EvalOptions& options) {
  if (options.json_path) SCD_RETURN_IF_ERROR(CheckResultsPath(*options.json_path));
  if (options.report_folder) SCD_RETURN_IF_ERROR(CheckReportFolder(*options.report_folder));
  return absl::OkStatus();
}

bool HasFigures(const Results& results) {
  return !results.modes.empty() || !results.latency.empty() || !results.ablations.empty() || results.drift;
}

EvalExit Measure(EvalRun& run, const std::vector<std::string>& arguments) {
  DescribeRun(run, arguments);
  const absl::Status status = RunCommand(run);
  EvalExit exit = ExitOf(run, status);
  run.results.interrupted = exit == EvalExit::kInterrupted;
  if (!status.ok() && !run.results.interrupted) run.results.error = std::string(status.message());
  if (!status.ok()) exit = Fail(run.terminal, exit, status);
  if (!HasFigures(run.results)) return exit;
  if (!run.options.quiet) run.terminal.out << DescribeResults(run.results) << std::flush;
  const absl::Status written = WriteOutputs(run, ResultsJson(run.results));
  if (written.ok()) return exit;
  return Fail(run.terminal, exit == EvalExit::kOk ? EvalExit::kFailed : exit, written);
}

EvalExit Report(EvalRun& run) {
  std::vector<nlohmann::ordered_json> documents;
  for (const std::string& path : run.options.documents) {
    auto document = ReadResults(path);
    if (!document.ok()) return Fail(run.terminal, EvalExit::kFailed, document.status());
    documents.push_back(*std::move(document));
  }
  const auto merged = MergeResults(documents, run.options.documents);
  if (!merged.ok()) return Fail(run.terminal, EvalExit::kFailed, merged.status());
  if (const absl::Status status = WriteOutputs(run, *merged); !status.ok()) {
    return Fail(run.terminal, EvalExit::kFailed, status);
  }
  if (!run.options.quiet) run.terminal.out << *run.options.report_folder << "/report.html" << std::endl;
  return EvalExit::kOk;
}

}  // namespace

EvalExit RunEval(const std::vector<std::string>& arguments, const EvalTerminal& terminal) {
  const ParsedEvalCommandLine parsed = ParseEvalCommandLine(arguments);
  if (!parsed.options) {
    (parsed.exit == EvalExit::kOk ? terminal.out : terminal.err) << parsed.message << std::flush;
    return parsed.exit;
  }
  const EvalOptions& options = *parsed.options;
  auto config = LoadEvalConfig(options.config_path, options.overrides);
  if (!config.ok()) return Fail(terminal, EvalExit::kUsage, config.status());
  DaemonsConfig& daemons = config->daemons;
  if (daemons.programs.empty()) daemons.programs = terminal.program_folder;
  daemons.producer_set.insert(daemons.producer_set.end(), options.producer_set.begin(),
                              options.producer_set.end());
  daemons.consumer_set.insert(daemons.consumer_set.end(), options.consumer_set.begin(),
                              options.consumer_set.end());

  std::unique_ptr<Log> log = std::make_unique<QuietLog>();
  if (!options.quiet) log = MakeStderrLog(config->log_level);
  EvalRun run{.options = options,
              .config = *std::move(config),
              .terminal = terminal,
              .log = *log,
              .progress = {.terminal = terminal.is_terminal && !options.quiet},
              .data = {},
              .results = {}};
  if (const absl::Status writable = CheckOutputs(options); !writable.ok()) {
    return Fail(terminal, EvalExit::kFailed, writable);
  }
  if (options.command == EvalCommand::kReport) return Report(run);
  auto data = LoadEvalData(run.config, NeedOf(options.command), run.log);
  if (!data.ok()) return Fail(terminal, EvalExit::kFailed, data.status());
  run.data = *std::move(data);
  if (options.check) {
    terminal.out << "scd-eval: " << options.config_path << " is good: " << run.data.windows.size()
                 << " windows, " << run.data.questions.size() << " questions" << std::endl;
    return EvalExit::kOk;
  }
  return Measure(run, arguments);
}

}  // namespace scd
