// The KV state of one request: its pages, and which of its positions hold valid K and V.
//
// It may begin with pages that hold known blocks (then these positions are valid at once), grow page by page,
// make its own blocks known, and be moved to host memory and back. State is staged: writers (prefill,
// rebuilding) fill pages in any order and call MarkValid once a range is whole in every layer; readers may
// only attend to the prefix [0, valid_length()).
//
// One writer and the owner may be different threads; MarkValid, valid_length and WhenValid synchronise.
// Whatever changes which pages there are (Reserve, MakeWritable, SwapOut, SwapIn) is for the owner, while
// nobody else reads or writes through a view.
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
#include "absl/types/span.h"
#include "common/cache/block_table.h"
#include "common/cache/paged_kv_cache.h"
#include "common/io/digest.h"

namespace scd {

struct SequenceOptions {
  std::int64_t max_tokens = 0;  // positions with pages from the start, at least 1
  // Keys of its whole blocks from the first position on; the longest known beginning is taken over.
  absl::Span<const Digest> prefix = {};
  // Of the known positions only so many count as valid, for those behind are to be computed again: a page
  // that holds both is copied, or left out where there is no page for the copy.
  std::int64_t max_prefix_tokens = 0;
};

class Sequence {
 public:
  // RESOURCE_EXHAUSTED from the cache. `cache` outlives this.
  static absl::StatusOr<std::unique_ptr<Sequence>> Create(PagedKvCache& cache,
                                                          const SequenceOptions& options);
  static absl::StatusOr<std::unique_ptr<Sequence>> Create(PagedKvCache& cache, std::int64_t max_tokens) {
    return Create(cache, SequenceOptions{.max_tokens = max_tokens});
  }

  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence();

  // Positions that it has pages for now.
  std::int64_t max_tokens() const { return max_tokens_; }
  std::int64_t num_pages() const { return static_cast<std::int64_t>(pages_.size()); }
  const KvLayout& layout() const { return cache_.layout(); }

  // Pages of one layer, for the kernels. Not while it is swapped out.
  PagedKv view(std::int64_t layer) const;

  // Grows until positions [0, num_tokens) have pages; never shrinks. RESOURCE_EXHAUSTED leaves it as it was.
  absl::Status Reserve(std::int64_t num_tokens);
  // Gives it its own copy of each page of [begin, end) that others hold too or that is in the index, so that
  // it may write there. RESOURCE_EXHAUSTED where there is no page for a copy; what was copied stays.
  absl::Status MakeWritable(std::int64_t begin, std::int64_t end);

  // Makes the blocks that lie wholly inside [0, end) known under `keys` (from the first position on; valid,
  // and never written again). Returns how many were new.
  std::int64_t Publish(absl::Span<const Digest> keys, std::int64_t end);

  // Bytes of host memory that SwapOut takes.
  std::int64_t swap_bytes() const;
  // Moves what is valid to host memory and gives all pages back. RESOURCE_EXHAUSTED leaves it as it was.
  absl::Status SwapOut();
  // The same bytes in pages of its own again, with pages for [0, max_tokens()). RESOURCE_EXHAUSTED leaves it
  // swapped out.
  absl::Status SwapIn();
  bool swapped_out() const { return swapped_ != nullptr; }

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
  Sequence(PagedKvCache& cache, std::int64_t max_tokens, std::vector<std::int32_t> pages);
  std::int64_t ValidLength() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Pages that hold a valid position.
  std::int64_t NumPagesInUse() const;

  PagedKvCache& cache_;
  std::int64_t max_tokens_;
  std::vector<std::int32_t> pages_;
  BlockTable block_table_;
  std::unique_ptr<Buffer> swapped_;  // the pages in use, one after the other
  std::int64_t num_published_ = 0;   // blocks that Publish has dealt with
  mutable absl::Mutex mutex_;
  std::map<std::int64_t, std::int64_t> valid_ ABSL_GUARDED_BY(mutex_);  // begin -> end, disjoint, merged
  std::multimap<std::int64_t, std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);  // by length
};

}  // namespace scd

#endif  // SCD_COMMON_CACHE_SEQUENCE_H_
