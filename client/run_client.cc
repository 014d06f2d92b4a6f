#include <utility>

#include "client/commands.h"

namespace scd {

ExitCode RunClient(const std::vector<std::string>& arguments, const Terminal& terminal) {
  const ParsedCommandLine parsed = ParseCommandLine(arguments);
  if (!parsed.options) {
    (parsed.exit_code == ExitCode::kOk ? terminal.out : terminal.err) << parsed.message << std::flush;
    return parsed.exit_code;
  }
  switch (parsed.options->command) {
    case Command::kGenerate:
      return RunGenerate(*parsed.options, terminal);
    case Command::kScore:
      return RunScore(*parsed.options, terminal);
    case Command::kCompare:
      return RunCompare(*parsed.options, terminal);
    case Command::kBench:
      return RunBench(*parsed.options, terminal);
    case Command::kInfo:
      return RunInfo(*parsed.options, terminal);
    case Command::kHealth:
      break;
  }
  return RunHealth(*parsed.options, terminal);
}

}  // namespace scd
