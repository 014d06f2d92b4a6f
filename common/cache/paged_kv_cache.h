// A fixed pool of KV pages on a backend's device, shared by all sequences of one model, with an index of the
// blocks that whole pages hold.
//
// Pages are counted by their holders. A page that nobody holds is free, or stays as long as there is room
// because its block is known: Acquire gives such pages up, the least recently used first (PrefixIndex).
// Thread-safe as to who holds what; the pool is allocated by Create and never grows, and what a page holds
// when it is acquired is undefined. Nobody writes into a page that others hold or that is in the index.
#ifndef SCD_COMMON_CACHE_PAGED_KV_CACHE_H_
#define SCD_COMMON_CACHE_PAGED_KV_CACHE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/cache/kv_layout.h"
#include "common/cache/page_memory.h"
#include "common/cache/prefix_index.h"
#include "kernels/backend.h"

namespace scd {

class PagedKvCache {
 public:
  // INVALID_ARGUMENT for an impossible layout, RESOURCE_EXHAUSTED where the memory is not there. `backend`
  // outlives this.
  static absl::StatusOr<std::unique_ptr<PagedKvCache>> Create(Backend& backend, const KvLayout& layout,
                                                              std::int64_t num_pages);

  const KvLayout& layout() const { return memory_->layout(); }
  Backend& backend() const { return memory_->backend(); }
  PageMemory& memory() const { return *memory_; }
  std::int64_t num_pages() const { return memory_->num_pages(); }
  std::int64_t PagesFor(std::int64_t num_tokens) const;

  // Pages that somebody holds.
  std::int64_t num_used_pages() const;
  // Pages that Acquire can hand out.
  std::int64_t num_available_pages() const { return num_pages() - num_used_pages(); }

  // All or none, each with one holder; RESOURCE_EXHAUSTED says how many were asked for and how many are
  // there.
  absl::StatusOr<std::vector<std::int32_t>> Acquire(std::int64_t count);
  // Ends one holding of each of these pages.
  void Release(absl::Span<const std::int32_t> pages);
  // Whether the page has one holder and is not in the index: then its holder may write into it.
  bool IsPrivate(std::int32_t page) const;

  // `num_pages` pages for one holder: first those that hold the longest known beginning of `keys` (of blocks
  // from the first position on, at most num_pages of them), then others. All or none, as Acquire.
  struct PrefixPages {
    std::vector<std::int32_t> pages;
    std::int64_t num_known = 0;
  };
  absl::StatusOr<PrefixPages> AcquireWithPrefix(absl::Span<const Digest> keys, std::int64_t num_pages);
  // How many blocks at the beginning of `keys` are known.
  std::int64_t CountKnown(absl::Span<const Digest> keys) const;

  // The caller holds `page`, which is whole and will not be written any more: it holds the last block of
  // `chain` (not empty; keys of blocks from the first position on). False, and nothing changes, where that
  // block is known already, the one before it is not, or the page stands under another key.
  bool Publish(absl::Span<const Digest> chain, std::int32_t page);

  struct Stats {
    std::int64_t used_pages = 0;         // that somebody holds
    std::int64_t indexed_pages = 0;      // whose blocks are known; used or not
    std::int64_t known_blocks_used = 0;  // handed out by AcquireWithPrefix since Create
    std::int64_t evicted_pages = 0;      // given up since Create
  };
  Stats stats() const;

  // [num_pages, kv_heads, page_tokens, head_dim] of one layer.
  TensorView k_pages(std::int64_t layer) const { return memory_->k_pages(layer); }
  TensorView v_pages(std::int64_t layer) const { return memory_->v_pages(layer); }

 private:
  explicit PagedKvCache(std::unique_ptr<PageMemory> memory);

  std::int64_t NumUsed() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  absl::Status CheckAvailable(std::int64_t count, std::int64_t available) const;
  // Moves pages that nobody holds from the index to free_ until it has `count`.
  void MakeFree(std::int64_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeFree(std::int64_t count, std::vector<std::int32_t>& pages) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hold(std::int32_t page) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<PageMemory> memory_;
  mutable absl::Mutex mutex_;
  std::vector<std::int32_t> free_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::int32_t> holders_ ABSL_GUARDED_BY(mutex_);  // of each page
  PrefixIndex index_ ABSL_GUARDED_BY(mutex_);
  std::int64_t known_blocks_used_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t evicted_pages_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace scd

#endif  // SCD_COMMON_CACHE_PAGED_KV_CACHE_H_
