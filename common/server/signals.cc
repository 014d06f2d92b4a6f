#include "common/server/signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "absl/status/status.h"
#include "common/server/command_line.h"

namespace scd {

absl::StatusOr<std::unique_ptr<SignalWatcher>> SignalWatcher::Create() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  const int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signal_fd < 0) return absl::ErrnoToStatus(errno, "signalfd");
  const int wake_fd = eventfd(0, EFD_CLOEXEC);
  if (wake_fd < 0) {
    const int error = errno;
    close(signal_fd);
    return absl::ErrnoToStatus(error, "eventfd");
  }
  sigset_t old_mask;
  pthread_sigmask(SIG_BLOCK, &signals, &old_mask);
  return std::unique_ptr<SignalWatcher>(new SignalWatcher(old_mask, signal_fd, wake_fd));
}

SignalWatcher::SignalWatcher(const sigset_t& old_mask, int signal_fd, int wake_fd)
    : old_mask_(old_mask), signal_fd_(signal_fd), wake_fd_(wake_fd), thread_([this] { Run(); }) {}

SignalWatcher::~SignalWatcher() {
  const std::uint64_t one = 1;
  // An eventfd takes eight bytes whole; it only blocks when its counter overflows.
  if (write(wake_fd_, &one, sizeof(one)) == static_cast<ssize_t>(sizeof(one))) thread_.join();
  close(signal_fd_);
  close(wake_fd_);
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void SignalWatcher::Run() {
  std::array<pollfd, 2> fds = {pollfd{signal_fd_, POLLIN, 0}, pollfd{wake_fd_, POLLIN, 0}};
  while (true) {
    if (poll(fds.data(), fds.size(), -1) < 0) continue;  // EINTR
    if (fds[1].revents != 0) return;
    signalfd_siginfo info{};
    while (read(signal_fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      if (!stop_.request_stop()) std::_Exit(kExitFailure);
    }
  }
}

}  // namespace scd
