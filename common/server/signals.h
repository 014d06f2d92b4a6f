// SIGTERM and SIGINT as a stop token: the first asks to stop, the second ends the process at once.
#ifndef SCD_COMMON_SERVER_SIGNALS_H_
#define SCD_COMMON_SERVER_SIGNALS_H_

#include <csignal>
#include <memory>
#include <stop_token>
#include <thread>

#include "absl/status/statusor.h"

namespace scd {

// Blocks both signals in the calling thread and in every thread that is made after it, and reads them on a
// thread of its own, so no handler runs anywhere. Make it first in main; the destructor, on the same thread,
// undoes the block.
class SignalWatcher {
 public:
  static absl::StatusOr<std::unique_ptr<SignalWatcher>> Create();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;
  ~SignalWatcher();

  // Stops with the first signal.
  std::stop_token token() const { return stop_.get_token(); }

 private:
  SignalWatcher(const sigset_t& old_mask, int signal_fd, int wake_fd);
  void Run();

  const sigset_t old_mask_;
  const int signal_fd_;
  const int wake_fd_;  // an eventfd: tells Run that the watcher goes
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace scd

#endif  // SCD_COMMON_SERVER_SIGNALS_H_
