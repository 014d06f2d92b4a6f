// scd-eval: what each way of moving a prompt's state costs, and what it does to the answers.
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "common/server/signals.h"
#include "eval/run_eval.h"

int main(int argc, char** argv) {
  // The first Ctrl-C ends the measurement, and what there is is written; the second ends the program.
  const auto signals = scd::SignalWatcher::Create();
  if (!signals.ok()) {
    std::cerr << "scd-eval: " << signals.status().message() << std::endl;
    return static_cast<int>(scd::EvalExit::kFailed);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const scd::EvalTerminal terminal{.out = std::cout,
                                   .err = std::cerr,
                                   .stop = (*signals)->token(),
                                   .is_terminal = isatty(STDERR_FILENO) == 1,
                                   .program_folder = error ? "." : self.parent_path().string()};
  return static_cast<int>(scd::RunEval(arguments, terminal));
}
