// The memory of a pool of KV pages on a backend's device, and the bytes of single pages.
//
// Which page belongs to whom is the business of others; nothing here is guarded. Contents are undefined until
// they are written.
#ifndef SCD_COMMON_CACHE_PAGE_MEMORY_H_
#define SCD_COMMON_CACHE_PAGE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cache/kv_layout.h"
#include "kernels/backend.h"

namespace scd {

class PageMemory {
 public:
  // INVALID_ARGUMENT for an impossible layout or count, RESOURCE_EXHAUSTED where the memory is not there:
  // that names the fields which ask for it.
  // `backend` outlives this.
  static absl::StatusOr<std::unique_ptr<PageMemory>> Create(Backend& backend, const KvLayout& layout,
                                                            std::int64_t num_pages);

  const KvLayout& layout() const { return layout_; }
  Backend& backend() const { return backend_; }
  std::int64_t num_pages() const { return num_pages_; }

  // [num_pages, kv_heads, page_tokens, head_dim] of one layer.
  TensorView k_pages(std::int64_t layer) const { return Vectors(2 * layer); }
  TensorView v_pages(std::int64_t layer) const { return Vectors(2 * layer + 1); }
  // [num_pages, kv_heads, page_tokens] f32; empty views unless the pages are i8.
  TensorView k_scales(std::int64_t layer) const { return Scales(2 * layer); }
  TensorView v_scales(std::int64_t layer) const { return Scales(2 * layer + 1); }

  // Exact bytes, complete when they return. `bytes` is memory of the host or of the backend's staging kind,
  // page_bytes() long.
  absl::Status CopyPage(std::int32_t from, std::int32_t to);
  absl::Status ReadPage(std::int32_t page, std::byte* bytes);
  absl::Status WritePage(std::int32_t page, const std::byte* bytes);

 private:
  PageMemory(Backend& backend, const KvLayout& layout, std::int64_t num_pages,
             std::unique_ptr<Buffer> vectors, std::unique_ptr<Buffer> scales, std::unique_ptr<Stream> stream);
  // Index 2 * layer for K and 2 * layer + 1 for V.
  TensorView Vectors(std::int64_t index) const;
  TensorView Scales(std::int64_t index) const;
  // The pieces of one page, contiguous each, always in the same order.
  std::vector<TensorView> Pieces(std::int32_t page) const;

  Backend& backend_;
  const KvLayout layout_;
  const std::int64_t num_pages_;
  const std::unique_ptr<Buffer> vectors_;
  const std::unique_ptr<Buffer> scales_;  // null unless the layout has scales
  const std::unique_ptr<Stream> stream_;
};

}  // namespace scd

#endif  // SCD_COMMON_CACHE_PAGE_MEMORY_H_
