// A code store on "another machine" whose answers a test can hold back.
#ifndef SCD_TESTS_SUPPORT_BLOCKING_CODE_STORE_H_
#define SCD_TESTS_SUPPORT_BLOCKING_CODE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/store/code_store.h"
#include "common/store/memory_code_store.h"

namespace scd::testing {

class BlockingCodeStore : public CodeStore {
 public:
  explicit BlockingCodeStore(std::int64_t capacity_bytes) : blocks_(capacity_bytes) {}
  ~BlockingCodeStore() override { SetBlocked(false); }

  // While it is blocked FindPrefix does not return.
  void SetBlocked(bool blocked) {
    const absl::MutexLock lock(&mutex_);
    blocked_ = blocked;
  }
  // Questions that have come to be held back so far.
  std::int64_t num_held() const {
    const absl::MutexLock lock(&mutex_);
    return num_held_;
  }

  std::vector<std::shared_ptr<const CodeBlock>> FindPrefix(absl::Span<const Digest> keys) override {
    {
      const absl::MutexLock lock(&mutex_);
      if (blocked_) ++num_held_;
      const auto free = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !blocked_; };
      mutex_.Await(absl::Condition(&free));
    }
    return blocks_.FindPrefix(keys);
  }
  std::vector<std::shared_ptr<const CodeBlock>> FindAtOnce(absl::Span<const Digest> /*keys*/,
                                                           std::size_t /*first*/) override {
    return {};
  }
  bool asks_others() const override { return true; }
  void Insert(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) override {
    blocks_.Insert(chain, std::move(block));
  }
  std::vector<CodeStoreStats> stats() const override { return blocks_.stats(); }

 private:
  MemoryCodeStore blocks_;
  mutable absl::Mutex mutex_;
  bool blocked_ ABSL_GUARDED_BY(mutex_) = false;
  std::int64_t num_held_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_SUPPORT_BLOCKING_CODE_STORE_H_
