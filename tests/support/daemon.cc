#include "tests/support/daemon.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"
#include "tests/support/loopback.h"
#include "tests/support/temp_dir.h"

namespace scd::testing {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(5);

std::string NewLogPath() {
  std::string path = (std::filesystem::temp_directory_path() / "scd-log-XXXXXX").string();
  const int fd = mkstemp(path.data());
  if (fd < 0) std::abort();
  close(fd);
  return path;
}

int ExitCode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Everything that allocates is done before fork: the test's process has threads.
pid_t Spawn(const std::string& name, const std::vector<std::string>& arguments, const std::string& log_path) {
  std::string program = ProgramPath(name);
  std::vector<std::string> storage = arguments;
  std::vector<char*> argv = {program.data()};
  for (std::string& argument : storage) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  // A test that is killed takes its daemons with it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  const int log = open(log_path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(argv[0], argv.data());
  _exit(127);
}

// The port behind "<before>HOST:"; 0 where the text does not have it.
int PortAfter(const std::string& text, const std::string& before) {
  const std::size_t begin = text.find(before);
  if (begin == std::string::npos) return 0;
  const std::size_t colon = text.find(':', begin + before.size());
  if (colon == std::string::npos) return 0;
  return std::atoi(text.c_str() + colon + 1);
}

}  // namespace

std::string ProgramPath(const std::string& name) {
  return absl::StrCat(SCD_PROGRAM_DIR, "/", name);
}

ProgramRun RunProgram(const std::string& name, const std::vector<std::string>& arguments,
                      absl::Duration timeout) {
  const std::string log_path = NewLogPath();
  const absl::Time start = absl::Now();
  const pid_t pid = Spawn(name, arguments, log_path);
  ProgramRun run;
  int status = 0;
  rusage usage{};
  while (wait4(pid, &status, WNOHANG, &usage) == 0) {
    if (absl::Now() - start > timeout) {
      kill(pid, SIGKILL);
      wait4(pid, &status, 0, &usage);
      run.exit_code = ProgramRun::kTimedOut;
      break;
    }
    absl::SleepFor(kPoll);
  }
  if (run.exit_code != ProgramRun::kTimedOut) run.exit_code = ExitCode(status);
  run.seconds = absl::ToDoubleSeconds(absl::Now() - start);
  run.max_resident_mib = usage.ru_maxrss / 1024;
  run.output = ReadFile(log_path);
  std::filesystem::remove(log_path);
  return run;
}

absl::StatusOr<std::unique_ptr<DaemonProcess>> DaemonProcess::Start(const std::string& name,
                                                                    const std::vector<std::string>& arguments,
                                                                    absl::Duration timeout) {
  const std::string log_path = NewLogPath();
  std::unique_ptr<DaemonProcess> daemon(new DaemonProcess(Spawn(name, arguments, log_path), log_path));
  SCD_RETURN_IF_ERROR(daemon->WaitUntilServing(name, timeout));
  return daemon;
}

absl::Status DaemonProcess::WaitUntilServing(const std::string& name, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (absl::Now() < deadline) {
    const std::string log = Log();
    const std::size_t begin = log.find(" listens on ");
    if (begin != std::string::npos && log.find('\n', begin) != std::string::npos) {
      port_ = PortAfter(log, " listens on ");
      metrics_port_ = PortAfter(log, ", metrics on ");
      return absl::OkStatus();
    }
    if (Wait(absl::ZeroDuration()).ok()) {
      return absl::UnavailableError(absl::StrCat(name, " ended with ", exit_code_, ": ", Log()));
    }
    absl::SleepFor(kPoll);
  }
  return absl::DeadlineExceededError(
      absl::StrCat(name, " does not serve after ", absl::FormatDuration(timeout), ": ", Log()));
}

DaemonProcess::~DaemonProcess() {
  if (!ended_) {
    Signal(SIGKILL);
    Wait(absl::Seconds(10)).IgnoreError();
  }
  std::error_code ignored;
  std::filesystem::remove(log_path_, ignored);
}

std::string DaemonProcess::Log() const {
  return ReadFile(log_path_);
}

void DaemonProcess::Signal(int signal) const {
  if (!ended_) kill(pid_, signal);
}

absl::StatusOr<int> DaemonProcess::Wait(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!ended_) {
    int status = 0;
    const pid_t waited = waitpid(pid_, &status, WNOHANG);
    if (waited == pid_) {
      ended_ = true;
      exit_code_ = ExitCode(status);
    } else if (waited < 0 && errno != EINTR) {
      return absl::InternalError("waitpid failed");
    } else if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError("the daemon goes on");
    } else {
      absl::SleepFor(kPoll);
    }
  }
  return exit_code_;
}

double DaemonProcess::Metric(const std::string& name) const {
  const std::string text = HttpGet(metrics_port_, "/metrics");
  const std::size_t at = text.find(absl::StrCat("\n", name, " "));
  double value = -1;
  if (at == std::string::npos) return value;
  const std::size_t begin = at + name.size() + 2;
  return absl::SimpleAtod(text.substr(begin, text.find_first_of("\r\n", begin) - begin), &value) ? value : -1;
}

}  // namespace scd::testing
