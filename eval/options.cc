#include "eval/options.h"

#include <CLI/CLI.hpp>
#include <sstream>
#include <utility>

#include "common/server/command_line.h"

namespace scd {
namespace {

constexpr char kFooter[] =
    "What is measured, on what data and with which rows stands in the configuration (configs/eval.yaml "
    "explains\n"
    "each field); --set changes any of it. Without a running pair (--consumer), scd-producer and "
    "scd-consumer are\n"
    "started beside scd-eval with their own configurations and ended with it.\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 no connection, 4 interrupted (what was\n"
    "measured until then is written).\n"
    "The table goes to standard output, progress and errors to standard error.";

// Shorthands for --set, as CLI11 writes them.
struct Raw {
  EvalOptions options;
  std::string consumer, bundle;
  std::int64_t windows = -1, questions = -1;
};

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  return out + "\"";
}

void AddOutputs(CLI::App* app, Raw* raw, bool report_required) {
  app->add_option("--json", raw->options.json_path, "Write the results document there")->type_name("FILE");
  auto* report = app->add_option("--report", raw->options.report_folder,
                                 "Write report.html, report.md and results.json there");
  report->type_name("DIR");
  if (report_required) report->required();
  app->add_flag("--quiet,-q", raw->options.quiet, "No table, no progress");
}

void AddConfig(CLI::App* app, Raw* raw) {
  app->add_option("--config,-c", raw->options.config_path, "YAML configuration file")
      ->type_name("FILE")
      ->capture_default_str();
  app->add_option("--set", raw->options.overrides,
                  "Override a value of the file, for example data.windows.count=10; repeatable")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
}

void AddMeasurement(CLI::App* app, Raw* raw) {
  AddConfig(app, raw);
  AddOutputs(app, raw, /*report_required=*/false);
  auto* pair = app->add_option_group("Pair");
  auto* consumer = pair->add_option("--consumer,-a", raw->consumer,
                                    "Use the running pair whose consumer is at this address (host:port)");
  pair->add_option("--bundle", raw->bundle,
                   "Start the daemons with this bundle instead of the one that their configurations name")
      ->type_name("DIR")
      ->excludes(consumer);
  pair->add_option("--producer-set", raw->options.producer_set,
                   "A further override of scd-producer's configuration, for example threads=2; repeatable")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  pair->add_option("--consumer-set", raw->options.consumer_set, "The same of scd-consumer's")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  auto* data = app->add_option_group("Data");
  data->add_option("--windows", raw->windows, "At most so many windows of text; 0: all")
      ->check(CLI::Range(0, 1 << 20));
  data->add_option("--questions", raw->questions, "At most so many questions; 0: all")
      ->check(CLI::Range(0, 1 << 20));
  app->add_flag("--check", raw->options.check, "Check the configuration and the data, then exit");
}

void AddLatency(CLI::App* app, Raw* raw) {
  AddMeasurement(app, raw);
  app->add_option("--link-mbit", raw->options.link_mbit_s,
                  "The daemons of --consumer sit behind a link of so many Mbit/s: rows say so")
      ->type_name("MBIT/S")
      ->check(CLI::Range(0.001, 1e6));
}

void AddReport(CLI::App* app, Raw* raw) {
  AddConfig(app, raw);
  AddOutputs(app, raw, /*report_required=*/true);
  app->add_option("documents", raw->options.documents, "Results documents that --json wrote; they are merged")
      ->type_name("FILE")
      ->required();
}

void Finish(Raw* raw) {
  std::vector<std::string>& overrides = raw->options.overrides;
  if (!raw->consumer.empty()) overrides.push_back("consumer=" + Quoted(raw->consumer));
  if (!raw->bundle.empty()) overrides.push_back("daemons.bundle=" + Quoted(raw->bundle));
  if (raw->windows >= 0) overrides.push_back("data.windows.count=" + std::to_string(raw->windows));
  if (raw->questions >= 0) overrides.push_back("data.questions.count=" + std::to_string(raw->questions));
}

struct CommandEntry {
  EvalCommand command;
  const char* name;
  const char* help;
  void (*add)(CLI::App*, Raw*);
};

constexpr CommandEntry kCommands[] = {
    {EvalCommand::kPpl, "ppl", "Perplexity of continuations after a prefix that was handed over",
     AddMeasurement},
    {EvalCommand::kQa, "qa", "F1 and exact match of greedy answers", AddMeasurement},
    {EvalCommand::kDivergence, "divergence",
     "KL and total variation against native prefill, and where greedy answers first differ from its",
     AddMeasurement},
    {EvalCommand::kLatency, "latency", "Time to first token by prefix length and bandwidth, stage by stage",
     AddLatency},
    {EvalCommand::kTable, "table", "Every way of moving the state with every figure: the paper's main table",
     AddMeasurement},
    {EvalCommand::kAblate, "ablate", "Ranks, Patch layers and calibration sizes", AddMeasurement},
    {EvalCommand::kDrift, "drift", "Errors of KV and hidden states layer by layer, with and without Patch",
     AddMeasurement},
    {EvalCommand::kReport, "report", "Merges results documents and draws the report", AddReport},
};

}  // namespace

const char* EvalCommandName(EvalCommand command) {
  for (const CommandEntry& entry : kCommands) {
    if (entry.command == command) return entry.name;
  }
  return "";
}

ParsedEvalCommandLine ParseEvalCommandLine(const std::vector<std::string>& arguments) {
  Raw raw;
  CLI::App app(
      "Measures, for a pair of models, what each way of handing over a prompt's state costs and what it does "
      "to the "
      "answers.",
      "scd-eval");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("scd-eval ") + kScdVersion, "Print the version and exit");
  try {
    for (const CommandEntry& entry : kCommands) {
      CLI::App* sub = app.add_subcommand(entry.name, entry.help);
      sub->footer(kFooter);
      entry.add(sub, &raw);
      sub->callback([&raw, command = entry.command] { raw.options.command = command; });
    }
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const bool help = app.exit(error, out, err) == 0;
    return {std::nullopt, out.str() + err.str(), help ? EvalExit::kOk : EvalExit::kUsage};
  } catch (const CLI::Error& error) {
    return {std::nullopt, std::string(error.what()) + "\n", EvalExit::kUsage};
  }
  Finish(&raw);
  return {std::move(raw.options), "", EvalExit::kOk};
}

}  // namespace scd
