// The code store in this process's memory.
#ifndef SCD_COMMON_STORE_MEMORY_CODE_STORE_H_
#define SCD_COMMON_STORE_MEMORY_CODE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/store/code_store.h"

namespace scd {

class MemoryCodeStore : public CodeStore {
 public:
  explicit MemoryCodeStore(std::int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  std::vector<std::shared_ptr<const CodeBlock>> FindPrefix(absl::Span<const Digest> keys) override {
    return FindAtOnce(keys, 0);
  }
  std::vector<std::shared_ptr<const CodeBlock>> FindAtOnce(absl::Span<const Digest> keys,
                                                           std::size_t first) override;
  bool asks_others() const override { return false; }
  void Insert(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) override;
  std::vector<CodeStoreStats> stats() const override;

  std::int64_t size_bytes() const;
  std::int64_t capacity_bytes() const { return capacity_bytes_; }

 private:
  struct Entry {
    Digest key;
    std::shared_ptr<const CodeBlock> block;
  };

  void MarkUsed(absl::Span<const Digest> keys) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::int64_t capacity_bytes_;
  mutable absl::Mutex mutex_;
  std::int64_t size_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t hits_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t misses_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t evicted_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Entry> by_use_ ABSL_GUARDED_BY(mutex_);  // most recently used first
  absl::flat_hash_map<Digest, std::list<Entry>::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace scd

#endif  // SCD_COMMON_STORE_MEMORY_CODE_STORE_H_
