#include "eval/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(10);
constexpr off_t kTailBytes = 16 << 10;

// A file that no name leads to, so that nothing is left of it.
absl::StatusOr<int> OpenLog() {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "scd-eval-log-XXXXXX").string();
  const int fd = mkostemp(path.data(), O_CLOEXEC | O_APPEND);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be made"));
  unlink(path.c_str());
  return fd;
}

std::string ReadAt(int fd, off_t offset, std::size_t bytes) {
  std::string text(bytes, '\0');
  const ssize_t got = pread(fd, text.data(), bytes, offset);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

struct Image {
  const char* program;
  char* const* argv;
  pid_t parent;
  int log_fd;
  int error_fd;  // gets errno where the program cannot be run
};

// In the child, where only what is safe in a signal handler may be called.
[[noreturn]] void Become(const Image& image) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == image.parent) {
    setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    std::signal(SIGPIPE, SIG_DFL);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(image.log_fd, STDOUT_FILENO);
    dup2(image.log_fd, STDERR_FILENO);
    execvp(image.program, image.argv);
  }
  const int error = errno;
  // Where not even this can be written, the parent sees the exit code.
  if (write(image.error_fd, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const std::string& program,
                                                                  const std::vector<std::string>& arguments) {
  SCD_ASSIGN_OR_RETURN(const int log_fd, OpenLog());
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) {
    const int error = errno;
    close(log_fd);
    return absl::ErrnoToStatus(error, "pipe2");
  }
  // Everything that allocates is done before fork: this process has threads.
  std::string name = program;
  std::vector<std::string> storage = arguments;
  std::vector<char*> argv = {name.data()};
  for (std::string& argument : storage) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const Image image{name.c_str(), argv.data(), getpid(), log_fd, error_pipe[1]};
  const pid_t pid = fork();
  if (pid == 0) Become(image);
  int error = pid < 0 ? errno : 0;
  close(error_pipe[1]);
  // Ends at once when exec closes the other end.
  if (pid > 0 && read(error_pipe[0], &error, sizeof(error)) < 0) error = errno;
  close(error_pipe[0]);
  if (pid < 0) {
    close(log_fd);
    return absl::ErrnoToStatus(error, "fork");
  }
  std::unique_ptr<ChildProcess> child(new ChildProcess(pid, log_fd));
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat(program, ": cannot be run"));
  return child;
}

ChildProcess::~ChildProcess() {
  End(absl::Seconds(5));
  close(log_fd_);
}

std::optional<int> ChildProcess::ExitCode() {
  if (exit_code_) return exit_code_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  return exit_code_;
}

absl::StatusOr<int> ChildProcess::Wait(absl::Duration timeout, const std::stop_token& stop) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!ExitCode()) {
    if (stop.stop_requested()) return absl::CancelledError("interrupted");
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("goes on after ", absl::FormatDuration(timeout)));
    }
    absl::SleepFor(kPoll);
  }
  return *exit_code_;
}

void ChildProcess::End(absl::Duration grace) {
  if (ExitCode()) return;
  kill(pid_, SIGTERM);
  if (Wait(grace, {}).ok()) return;
  kill(pid_, SIGKILL);
  Wait(absl::InfiniteDuration(), {}).IgnoreError();
}

std::string ChildProcess::FirstOutput(std::size_t bytes) const {
  return ReadAt(log_fd_, 0, bytes);
}

std::string ChildProcess::LastLines(int lines) const {
  struct stat info {};
  fstat(log_fd_, &info);
  const off_t begin = info.st_size > kTailBytes ? info.st_size - kTailBytes : 0;
  std::vector<std::string> all = absl::StrSplit(ReadAt(log_fd_, begin, kTailBytes), '\n', absl::SkipEmpty());
  const std::size_t first =
      all.size() > static_cast<std::size_t>(lines) ? all.size() - static_cast<std::size_t>(lines) : 0;
  std::string out;
  for (std::size_t i = first; i < all.size(); ++i) absl::StrAppend(&out, "  ", all[i], "\n");
  return out;
}

std::string DescribeExit(int exit_code) {
  if (exit_code < 0) return absl::StrCat("was ended by signal ", -exit_code);
  return absl::StrCat("ended with exit code ", exit_code);
}

}  // namespace scd
