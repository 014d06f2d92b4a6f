// A program that runs beside this one and ends with it, whatever happens: it is ended when this object goes,
// and the kernel kills it when this process dies. It has a process group of its own, so that an interrupt
// typed at the terminal reaches this program alone, which then ends its children in order.
#ifndef SCD_EVAL_CHILD_PROCESS_H_
#define SCD_EVAL_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace scd {

// Not thread-safe: the thread that starts a child keeps it (the kernel's promise is about that thread).
class ChildProcess {
 public:
  // `program`: a path, or a name that is looked up in PATH. Its output goes to a log that only this object
  // reads. NOT_FOUND, PERMISSION_DENIED naming the program.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::string& program,
                                                             const std::vector<std::string>& arguments);
  ~ChildProcess();  // End(5 s)
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Absent while it runs; minus the signal where one ended it.
  std::optional<int> ExitCode();
  // Waits for the end. DEADLINE_EXCEEDED, CANCELLED: it goes on.
  absl::StatusOr<int> Wait(absl::Duration timeout, const std::stop_token& stop);
  // SIGTERM, and SIGKILL where it still runs after `grace`. Returns when it is gone.
  void End(absl::Duration grace);

  // The first bytes of what it wrote.
  std::string FirstOutput(std::size_t bytes) const;
  // The last lines of what it wrote, each indented and ended by a line break.
  std::string LastLines(int lines) const;

 private:
  ChildProcess(pid_t pid, int log_fd) : pid_(pid), log_fd_(log_fd) {}

  const pid_t pid_;
  const int log_fd_;  // a file without a name
  std::optional<int> exit_code_;
};

// "ended with exit code 2", "was ended by signal 9".
std::string DescribeExit(int exit_code);

}  // namespace scd

#endif  // SCD_EVAL_CHILD_PROCESS_H_
