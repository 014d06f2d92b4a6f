// The subcommands of scd-client. Each writes its answer to out, statistics and one clear error to err.
#ifndef SCD_CLIENT_COMMANDS_H_
#define SCD_CLIENT_COMMANDS_H_

#include <istream>
#include <ostream>
#include <stop_token>
#include <string>
#include <vector>

#include "client/options.h"

namespace scd {

// Standard streams and the interrupt of one run.
struct Terminal {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  std::stop_token stop;
  bool err_is_terminal = false;
};

ExitCode RunGenerate(const Options& options, const Terminal& terminal);
ExitCode RunScore(const Options& options, const Terminal& terminal);
ExitCode RunCompare(const Options& options, const Terminal& terminal);
ExitCode RunBench(const Options& options, const Terminal& terminal);
ExitCode RunInfo(const Options& options, const Terminal& terminal);
ExitCode RunHealth(const Options& options, const Terminal& terminal);

// The whole program but for the process around it. `arguments` without the program's name.
ExitCode RunClient(const std::vector<std::string>& arguments, const Terminal& terminal);

}  // namespace scd

#endif  // SCD_CLIENT_COMMANDS_H_
