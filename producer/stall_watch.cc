#include "producer/stall_watch.h"

#include <utility>
#include <vector>

#include "absl/time/clock.h"

namespace scd {

StallWatch::StallWatch(absl::Duration interval) : interval_(interval), thread_([this] { Run(); }) {}

StallWatch::~StallWatch() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void StallWatch::Add(std::weak_ptr<Watched> watched) {
  const absl::MutexLock lock(&mutex_);
  watched_.push_back(std::move(watched));
}

void StallWatch::Run() {
  while (true) {
    std::vector<std::shared_ptr<Watched>> alive;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&stopping_), interval_);
      if (stopping_) return;
      for (auto place = watched_.begin(); place != watched_.end();) {
        if (auto watched = place->lock()) {
          alive.push_back(std::move(watched));
          ++place;
        } else {
          place = watched_.erase(place);
        }
      }
    }
    const absl::Time now = absl::Now();
    for (const auto& watched : alive) watched->CheckStall(now);
  }
}

}  // namespace scd
