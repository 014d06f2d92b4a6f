// The KV state of one request: its pages, and which of its positions hold valid K and V.
//
// All pages are reserved when the sequence is made and freed when it dies, so decode never runs out half way.
// State is staged: writers (prefill, rebuilding) fill pages in any order and call MarkValid once a range is
// whole in every layer; readers may only attend to the prefix [0, valid_length()). One writer and the owner
// may be different threads; MarkValid and valid_length synchronise.
#ifndef SCD_COMMON_CACHE_SEQUENCE_H_
#define SCD_COMMON_CACHE_SEQUENCE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/cache/paged_kv_cache.h"

namespace scd {

class Sequence {
 public:
  // Reserves pages for max_tokens >= 1 positions. RESOURCE_EXHAUSTED from the cache. `cache` outlives this.
  static absl::StatusOr<std::unique_ptr<Sequence>> Create(PagedKvCache& cache, std::int64_t max_tokens);

  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence();

  std::int64_t max_tokens() const { return max_tokens_; }
  std::int64_t num_pages() const { return static_cast<std::int64_t>(pages_.size()); }
  const KvLayout& layout() const { return cache_.layout(); }

  // Pages of one layer, for the kernels.
  PagedKv view(std::int64_t layer) const;

  // Positions [begin, end) now hold K and V in every layer. OUT_OF_RANGE unless 0 <= begin <= end <=
  // max_tokens.
  absl::Status MarkValid(std::int64_t begin, std::int64_t end);
  // Positions [0, valid_length()) are all valid.
  std::int64_t valid_length() const;

  // Runs `callback` once, as soon as valid_length() >= length: at once on this thread where it is already,
  // else on the thread whose MarkValid made it so, shortest lengths first. No lock is held meanwhile, so it
  // may use this sequence, and end it as its last act where nothing else of the marking thread uses it.
  // Dropped unrun when the sequence dies first, so a length beyond max_tokens never runs.
  void WhenValid(std::int64_t length, std::function<void()> callback);

 private:
  Sequence(PagedKvCache& cache, std::int64_t max_tokens, std::vector<std::int32_t> pages,
           std::unique_ptr<Buffer> block_table);
  std::int64_t ValidLength() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  PagedKvCache& cache_;
  const std::int64_t max_tokens_;
  const std::vector<std::int32_t> pages_;
  const std::unique_ptr<Buffer> block_table_;  // [num_pages] i32 on the device
  mutable absl::Mutex mutex_;
  std::map<std::int64_t, std::int64_t> valid_ ABSL_GUARDED_BY(mutex_);  // begin -> end, disjoint, merged
  std::multimap<std::int64_t, std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);  // by length
};

}  // namespace scd

#endif  // SCD_COMMON_CACHE_SEQUENCE_H_
