// Options of stores in Redis for tests, and what they warn of.
#ifndef SCD_TESTS_COMMON_STORE_REDIS_OPTIONS_H_
#define SCD_TESTS_COMMON_STORE_REDIS_OPTIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/store/redis_code_store.h"

namespace scd::testing {

class Warnings {
 public:
  std::function<void(const std::string&)> sink() {
    return [this](const std::string& text) {
      const absl::MutexLock lock(&mutex_);
      texts_.push_back(text);
    };
  }
  std::vector<std::string> texts() const {
    const absl::MutexLock lock(&mutex_);
    return texts_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::string> texts_ ABSL_GUARDED_BY(mutex_);
};

inline RedisCodeStoreOptions Options(const RedisServer& server, Warnings& warnings) {
  RedisCodeStoreOptions options;
  options.server = server;
  options.timeout = absl::Seconds(5);
  options.retry_interval = absl::Milliseconds(100);
  options.warn = warnings.sink();
  return options;
}

}  // namespace scd::testing

#endif  // SCD_TESTS_COMMON_STORE_REDIS_OPTIONS_H_
