// The KV state of one request: its pages, and which of its positions hold valid K and V.
//
// All pages are reserved when the sequence is made and freed when it dies, so decode never runs out half way.
// State is staged: writers (prefill, rebuilding) fill pages in any order and call MarkValid once a range is
// whole in every layer; readers may only attend to the prefix [0, valid_length()). One writer and the owner
// may be different threads; MarkValid and valid_length synchronise.
#ifndef SCD_COMMON_CACHE_SEQUENCE_H_
#define SCD_COMMON_CACHE_SEQUENCE_H_

#include <cstdint>
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

 private:
  Sequence(PagedKvCache& cache, std::int64_t max_tokens, std::vector<std::int32_t> pages,
           std::unique_ptr<Buffer> block_table);

  PagedKvCache& cache_;
  const std::int64_t max_tokens_;
  const std::vector<std::int32_t> pages_;
  const std::unique_ptr<Buffer> block_table_;  // [num_pages] i32 on the device
  mutable absl::Mutex mutex_;
  std::map<std::int64_t, std::int64_t> valid_ ABSL_GUARDED_BY(mutex_);  // begin -> end, disjoint, merged
};

}  // namespace scd

#endif  // SCD_COMMON_CACHE_SEQUENCE_H_
