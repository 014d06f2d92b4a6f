// Looks at running streams now and then, so that one whose reader stalled ends itself.
#ifndef SCD_PRODUCER_STALL_WATCH_H_
#define SCD_PRODUCER_STALL_WATCH_H_

#include <list>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace scd {

class StallWatch {
 public:
  class Watched {
   public:
    virtual ~Watched() = default;
    // On the watch's thread.
    virtual void CheckStall(absl::Time now) = 0;
  };

  // Looks every `interval`.
  explicit StallWatch(absl::Duration interval);
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;
  ~StallWatch();

  // Until it dies.
  void Add(std::weak_ptr<Watched> watched);

 private:
  void Run();

  const absl::Duration interval_;
  absl::Mutex mutex_;
  std::list<std::weak_ptr<Watched>> watched_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace scd

#endif  // SCD_PRODUCER_STALL_WATCH_H_
