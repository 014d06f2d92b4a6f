// The project's real programs as processes of a test: started by fork and exec, watched through their log,
// ended by pid.
#ifndef SCD_TESTS_SUPPORT_DAEMON_H_
#define SCD_TESTS_SUPPORT_DAEMON_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace scd::testing {

// Path of a program of this build, "scd-producer".
std::string ProgramPath(const std::string& name);

// A program that was run to its end.
struct ProgramRun {
  int exit_code = -1;  // minus the signal where one ended it; kTimedOut where it had to be killed
  std::string output;  // standard output and error
  double seconds = 0;
  long max_resident_mib = 0;  // its largest resident memory

  static constexpr int kTimedOut = -1000;
};
ProgramRun RunProgram(const std::string& name, const std::vector<std::string>& arguments,
                      absl::Duration timeout);

// A daemon that serves. Its log goes to a file that is removed with it.
class DaemonProcess {
 public:
  // Waits until the daemon's log says where it listens. DEADLINE_EXCEEDED, or UNAVAILABLE with the log where
  // it ended.
  static absl::StatusOr<std::unique_ptr<DaemonProcess>> Start(const std::string& name,
                                                              const std::vector<std::string>& arguments,
                                                              absl::Duration timeout = absl::Seconds(60));
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;
  ~DaemonProcess();  // kills what still runs

  pid_t pid() const { return pid_; }
  int port() const { return port_; }
  int metrics_port() const { return metrics_port_; }  // 0: no metrics
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string Log() const;

  void Signal(int signal) const;
  // The exit code, or minus the signal that ended it; DEADLINE_EXCEEDED where it goes on.
  absl::StatusOr<int> Wait(absl::Duration timeout);

  // What a scrape says of one metric: a name with its labels as they are printed; -1 where there is none.
  double Metric(const std::string& name) const;

 private:
  DaemonProcess(pid_t pid, std::string log_path) : pid_(pid), log_path_(std::move(log_path)) {}
  absl::Status WaitUntilServing(const std::string& name, absl::Duration timeout);

  const pid_t pid_;
  const std::string log_path_;
  int port_ = 0;
  int metrics_port_ = 0;
  bool ended_ = false;
  int exit_code_ = 0;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_SUPPORT_DAEMON_H_
