// Threads that ask a code store which may keep its answer back, so that those of gRPC and of the engine need
// not: while some questions wait, the other requests go on.
#ifndef SCD_PRODUCER_STORE_THREADS_H_
#define SCD_PRODUCER_STORE_THREADS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace scd {

// Thread-safe.
class StoreThreads {
 public:
  // `num_threads` may be 0: then nothing is ever taken. At most max_waiting questions wait for a thread.
  StoreThreads(std::size_t num_threads, std::size_t max_waiting);
  StoreThreads(const StoreThreads&) = delete;
  StoreThreads& operator=(const StoreThreads&) = delete;
  // Waits for what runs; what still waits is never run.
  ~StoreThreads();

  // Runs `question` on one of the threads. False, and `question` is not run, where too many wait already.
  bool Run(std::function<void()> question);

 private:
  void Work();

  const std::size_t max_waiting_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::size_t num_idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;  // last: they use everything above
};

}  // namespace scd

#endif  // SCD_PRODUCER_STORE_THREADS_H_
