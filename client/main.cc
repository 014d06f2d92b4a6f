// scd-client: answers of the expert model from the command line.
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "client/commands.h"
#include "common/server/signals.h"

int main(int argc, char** argv) {
  // The first Ctrl-C cancels the request, on the server too; the second ends the program.
  const auto signals = scd::SignalWatcher::Create();
  if (!signals.ok()) {
    std::cerr << "scd-client: " << signals.status().message() << std::endl;
    return static_cast<int>(scd::ExitCode::kRequestFailed);
  }
  std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away ends the request instead of the program
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const scd::Terminal terminal{std::cin, std::cout, std::cerr, (*signals)->token(),
                               isatty(STDERR_FILENO) == 1};
  return static_cast<int>(scd::RunClient(arguments, terminal));
}
