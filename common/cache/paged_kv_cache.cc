#include "common/cache/paged_kv_cache.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::unique_ptr<PagedKvCache>> PagedKvCache::Create(Backend& backend, const KvLayout& layout,
                                                                   std::int64_t num_pages) {
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<PageMemory> memory, PageMemory::Create(backend, layout, num_pages));
  return absl::WrapUnique(new PagedKvCache(std::move(memory)));
}

PagedKvCache::PagedKvCache(std::unique_ptr<PageMemory> memory)
    : memory_(std::move(memory)), holders_(static_cast<std::size_t>(memory_->num_pages()), 0) {
  free_.reserve(holders_.size());
  for (std::int64_t page = num_pages() - 1; page >= 0; --page) {
    free_.push_back(static_cast<std::int32_t>(page));
  }
}

std::int64_t PagedKvCache::PagesFor(std::int64_t num_tokens) const {
  const std::int64_t page_tokens = layout().page_tokens;
  return num_tokens / page_tokens + (num_tokens % page_tokens != 0 ? 1 : 0);
}

std::int64_t PagedKvCache::NumUsed() const {
  return num_pages() - static_cast<std::int64_t>(free_.size()) - index_.num_unheld();
}

std::int64_t PagedKvCache::num_used_pages() const {
  absl::MutexLock lock(&mutex_);
  return NumUsed();
}

absl::Status PagedKvCache::CheckAvailable(std::int64_t count, std::int64_t available) const {
  if (count < 0) return absl::InvalidArgumentError(absl::StrCat("KV cache: ", count, " pages asked for"));
  if (count <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("KV cache: ", count, " pages asked for, ", available, " of ", num_pages(), " free"));
}

void PagedKvCache::MakeFree(std::int64_t count) {
  while (static_cast<std::int64_t>(free_.size()) < count) {
    const std::vector<std::int32_t> given_up = index_.Evict();
    evicted_pages_ += static_cast<std::int64_t>(given_up.size());
    free_.insert(free_.end(), given_up.begin(), given_up.end());
  }
}

void PagedKvCache::TakeFree(std::int64_t count, std::vector<std::int32_t>& pages) {
  MakeFree(count);
  for (std::int64_t i = 0; i < count; ++i) {
    holders_[static_cast<std::size_t>(free_.back())] = 1;
    pages.push_back(free_.back());
    free_.pop_back();
  }
}

void PagedKvCache::Hold(std::int32_t page) {
  if (holders_[static_cast<std::size_t>(page)]++ == 0) index_.MarkHeld(page);
}

absl::StatusOr<std::vector<std::int32_t>> PagedKvCache::Acquire(std::int64_t count) {
  absl::MutexLock lock(&mutex_);
  SCD_RETURN_IF_ERROR(CheckAvailable(count, num_pages() - NumUsed()));
  std::vector<std::int32_t> pages;
  TakeFree(count, pages);
  return pages;
}

absl::StatusOr<PagedKvCache::PrefixPages> PagedKvCache::AcquireWithPrefix(absl::Span<const Digest> keys,
                                                                          std::int64_t num_pages) {
  absl::MutexLock lock(&mutex_);
  PrefixPages result;
  result.pages = index_.Find(
      keys.first(std::min(keys.size(), static_cast<std::size_t>(std::max<std::int64_t>(num_pages, 0)))));
  result.num_known = static_cast<std::int64_t>(result.pages.size());
  const std::int64_t unheld = std::count_if(result.pages.begin(), result.pages.end(),
                                            [this](std::int32_t page) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                                              return holders_[static_cast<std::size_t>(page)] == 0;
                                            });
  SCD_RETURN_IF_ERROR(CheckAvailable(num_pages - result.num_known, this->num_pages() - NumUsed() - unheld));
  for (const std::int32_t page : result.pages) Hold(page);
  known_blocks_used_ += result.num_known;
  TakeFree(num_pages - result.num_known, result.pages);
  return result;
}

std::int64_t PagedKvCache::CountKnown(absl::Span<const Digest> keys) const {
  absl::MutexLock lock(&mutex_);
  return index_.CountKnown(keys);
}

void PagedKvCache::Release(absl::Span<const std::int32_t> pages) {
  absl::MutexLock lock(&mutex_);
  for (auto it = pages.rbegin(); it != pages.rend(); ++it) {
    std::int32_t& holders = holders_[static_cast<std::size_t>(*it)];
    assert(holders > 0);
    if (--holders > 0) continue;
    if (index_.Contains(*it)) {
      index_.MarkUnheld(*it);
    } else {
      free_.push_back(*it);
    }
  }
}

bool PagedKvCache::IsPrivate(std::int32_t page) const {
  absl::MutexLock lock(&mutex_);
  return holders_[static_cast<std::size_t>(page)] == 1 && !index_.Contains(page);
}

bool PagedKvCache::Publish(absl::Span<const Digest> chain, std::int32_t page) {
  absl::MutexLock lock(&mutex_);
  assert(holders_[static_cast<std::size_t>(page)] > 0);
  return index_.Insert(chain, page);
}

PagedKvCache::Stats PagedKvCache::stats() const {
  absl::MutexLock lock(&mutex_);
  return Stats{NumUsed(), index_.size(), known_blocks_used_, evicted_pages_};
}

}  // namespace scd
