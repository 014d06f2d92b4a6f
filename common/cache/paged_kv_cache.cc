#include "common/cache/paged_kv_cache.h"

#include <cassert>
#include <limits>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 62;

// The product of sizes that are all at least 1, or 0 where it would pass kMaxBytes.
std::int64_t BoundedProduct(std::initializer_list<std::int64_t> sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    if (size > kMaxBytes / product) return 0;
    product *= size;
  }
  return product;
}

absl::Status BadField(absl::string_view field, std::int64_t value) {
  return absl::InvalidArgumentError(
      absl::StrCat("KV layout: ", field, " is ", value, ", expected at least 1"));
}

}  // namespace

absl::Status KvLayout::Validate() const {
  if (num_layers < 1) return BadField("num_layers", num_layers);
  if (num_kv_heads < 1) return BadField("num_kv_heads", num_kv_heads);
  if (head_dim < 1) return BadField("head_dim", head_dim);
  if (page_tokens < 1) return BadField("page_tokens", page_tokens);
  if (dtype != DType::kF32) {
    return absl::InvalidArgumentError(absl::StrCat("KV layout: dtype is ", std::string(DTypeName(dtype)),
                                                   ", the attention kernels take f32"));
  }
  if (BoundedProduct({num_layers, 2, num_kv_heads, page_tokens, head_dim,
                      static_cast<std::int64_t>(DTypeBytes(dtype))}) == 0) {
    return absl::InvalidArgumentError("KV layout: a page would be larger than any memory");
  }
  return absl::OkStatus();
}

std::int64_t KvLayout::page_bytes() const {
  return num_layers * 2 * num_kv_heads * page_tokens * head_dim *
         static_cast<std::int64_t>(DTypeBytes(dtype));
}

absl::StatusOr<std::unique_ptr<PagedKvCache>> PagedKvCache::Create(Backend& backend, const KvLayout& layout,
                                                                   std::int64_t num_pages) {
  SCD_RETURN_IF_ERROR(layout.Validate());
  if (num_pages < 1 || num_pages > std::numeric_limits<std::int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("KV cache: num_pages is ", num_pages, ", expected 1 to 2^31 - 1"));
  }
  const std::int64_t bytes = BoundedProduct({layout.page_bytes(), num_pages});
  absl::StatusOr<std::unique_ptr<Buffer>> memory =
      bytes == 0 ? absl::ResourceExhaustedError("larger than any memory")
                 : backend.Allocate(MemoryKind::kDevice, static_cast<std::size_t>(bytes));
  if (!memory.ok()) {
    return absl::Status(memory.status().code(),
                        absl::StrCat("KV cache: ", num_pages, " pages of ", layout.page_bytes(),
                                     " bytes: ", memory.status().message()));
  }
  return absl::WrapUnique(new PagedKvCache(backend, layout, num_pages, *std::move(memory)));
}

PagedKvCache::PagedKvCache(Backend& backend, const KvLayout& layout, std::int64_t num_pages,
                           std::unique_ptr<Buffer> memory)
    : backend_(backend), layout_(layout), num_pages_(num_pages), memory_(std::move(memory)) {
  free_.reserve(static_cast<std::size_t>(num_pages));
  for (std::int64_t page = num_pages - 1; page >= 0; --page) free_.push_back(static_cast<std::int32_t>(page));
}

std::int64_t PagedKvCache::num_used_pages() const {
  absl::MutexLock lock(&mutex_);
  return num_pages_ - static_cast<std::int64_t>(free_.size());
}

std::int64_t PagedKvCache::PagesFor(std::int64_t num_tokens) const {
  return num_tokens / layout_.page_tokens + (num_tokens % layout_.page_tokens != 0 ? 1 : 0);
}

absl::StatusOr<std::vector<std::int32_t>> PagedKvCache::Acquire(std::int64_t count) {
  if (count < 0) return absl::InvalidArgumentError(absl::StrCat("KV cache: ", count, " pages asked for"));
  absl::MutexLock lock(&mutex_);
  if (count > static_cast<std::int64_t>(free_.size())) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KV cache: ", count, " pages asked for, ", free_.size(), " of ", num_pages_, " free"));
  }
  std::vector<std::int32_t> pages(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - static_cast<std::size_t>(count));
  return pages;
}

void PagedKvCache::Release(absl::Span<const std::int32_t> pages) {
  absl::MutexLock lock(&mutex_);
  assert(static_cast<std::int64_t>(free_.size() + pages.size()) <= num_pages_);
  free_.insert(free_.end(), pages.rbegin(), pages.rend());
}

TensorView PagedKvCache::k_pages(std::int64_t layer) const {
  return Pages(2 * layer);
}

TensorView PagedKvCache::v_pages(std::int64_t layer) const {
  return Pages(2 * layer + 1);
}

TensorView PagedKvCache::Pages(std::int64_t index) const {
  const Shape shape{num_pages_, layout_.num_kv_heads, layout_.page_tokens, layout_.head_dim};
  const std::size_t bytes = static_cast<std::size_t>(shape.num_elements()) * DTypeBytes(layout_.dtype);
  auto* begin = static_cast<std::byte*>(memory_->data()) + static_cast<std::size_t>(index) * bytes;
  return TensorView(begin, layout_.dtype, shape, memory_->device());
}

}  // namespace scd
