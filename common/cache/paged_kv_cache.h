// A fixed pool of KV pages on a backend's device, shared by all sequences of one model.
//
// A page holds K (after RoPE) and V of page_tokens positions for every layer. Thread-safe. The pool is
// allocated by Create and never grows; what a page holds when it is acquired is undefined.
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
#include "kernels/backend.h"

namespace scd {

struct KvLayout {
  std::int64_t num_layers = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t page_tokens = 32;
  DType dtype = DType::kF32;  // storage of K and V; the attention kernels take f32

  // INVALID_ARGUMENT naming the field: sizes positive, no sum of them beyond 2^62, a dtype that kernels
  // attend over.
  absl::Status Validate() const;
  std::int64_t page_bytes() const;  // of one page over all layers, K and V
};

class PagedKvCache {
 public:
  // INVALID_ARGUMENT for an impossible layout, RESOURCE_EXHAUSTED where the memory is not there. `backend`
  // outlives this.
  static absl::StatusOr<std::unique_ptr<PagedKvCache>> Create(Backend& backend, const KvLayout& layout,
                                                              std::int64_t num_pages);

  const KvLayout& layout() const { return layout_; }
  Backend& backend() const { return backend_; }
  std::int64_t num_pages() const { return num_pages_; }
  std::int64_t num_used_pages() const;
  std::int64_t PagesFor(std::int64_t num_tokens) const;

  // All or none; RESOURCE_EXHAUSTED says how many were asked for and how many are free.
  absl::StatusOr<std::vector<std::int32_t>> Acquire(std::int64_t count);
  // Gives back pages that Acquire handed out, each once.
  void Release(absl::Span<const std::int32_t> pages);

  // [num_pages, kv_heads, page_tokens, head_dim] of one layer.
  TensorView k_pages(std::int64_t layer) const;
  TensorView v_pages(std::int64_t layer) const;

 private:
  PagedKvCache(Backend& backend, const KvLayout& layout, std::int64_t num_pages,
               std::unique_ptr<Buffer> memory);
  // Index 2 * layer for K and 2 * layer + 1 for V.
  TensorView Pages(std::int64_t index) const;

  Backend& backend_;
  const KvLayout layout_;
  const std::int64_t num_pages_;
  const std::unique_ptr<Buffer> memory_;
  mutable absl::Mutex mutex_;
  std::vector<std::int32_t> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace scd

#endif  // SCD_COMMON_CACHE_PAGED_KV_CACHE_H_
