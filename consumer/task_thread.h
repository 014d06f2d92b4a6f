// A thread that runs short tasks one after the other, in the order in which they were posted.
#ifndef SCD_CONSUMER_TASK_THREAD_H_
#define SCD_CONSUMER_TASK_THREAD_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace scd {

class TaskThread {
 public:
  TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;
  // Runs what was posted, then joins.
  ~TaskThread();

  // Any thread, also from inside a task. Not while or after this is destroyed.
  void Post(std::function<void()> task);

 private:
  void Run();

  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace scd

#endif  // SCD_CONSUMER_TASK_THREAD_H_
