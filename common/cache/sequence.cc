#include "common/cache/sequence.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::unique_ptr<Sequence>> Sequence::Create(PagedKvCache& cache,
                                                           const SequenceOptions& options) {
  if (options.max_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence: max_tokens is ", options.max_tokens, ", expected at least 1"));
  }
  const std::int64_t max_valid = std::clamp<std::int64_t>(options.max_prefix_tokens, 0, options.max_tokens);
  const auto max_blocks = static_cast<std::size_t>(cache.PagesFor(max_valid));
  SCD_ASSIGN_OR_RETURN(
      PagedKvCache::PrefixPages pages,
      cache.AcquireWithPrefix(options.prefix.first(std::min(options.prefix.size(), max_blocks)),
                              cache.PagesFor(options.max_tokens)));
  // From here on the pages go with the sequence.
  auto sequence = absl::WrapUnique(new Sequence(cache, options.max_tokens, std::move(pages.pages)));
  SCD_RETURN_IF_ERROR(sequence->block_table_.Set(sequence->pages_));
  const std::int64_t known = pages.num_known * cache.layout().page_tokens;
  if (known > max_valid) {
    const absl::Status copied = sequence->MakeWritable(max_valid, known);
    if (absl::IsResourceExhausted(copied)) {
      // Without the block that was to be copied it needs a page less.
      sequence.reset();
      return Create(cache, {.max_tokens = options.max_tokens,
                            .prefix = options.prefix,
                            .max_prefix_tokens = max_valid - max_valid % cache.layout().page_tokens});
    }
    SCD_RETURN_IF_ERROR(copied);
  }
  SCD_RETURN_IF_ERROR(sequence->MarkValid(0, std::min(known, max_valid)));
  return sequence;
}

Sequence::Sequence(PagedKvCache& cache, std::int64_t max_tokens, std::vector<std::int32_t> pages)
    : cache_(cache), max_tokens_(max_tokens), pages_(std::move(pages)), block_table_(cache.backend()) {}

Sequence::~Sequence() {
  cache_.Release(pages_);
}

PagedKv Sequence::view(std::int64_t layer) const {
  const PageMemory& memory = cache_.memory();
  return PagedKv{.k_pages = memory.k_pages(layer),
                 .v_pages = memory.v_pages(layer),
                 .block_table = block_table_.view(),
                 .k_scales = memory.k_scales(layer),
                 .v_scales = memory.v_scales(layer)};
}

absl::Status Sequence::Reserve(std::int64_t num_tokens) {
  if (num_tokens <= max_tokens_) return absl::OkStatus();
  const std::int64_t more = cache_.PagesFor(num_tokens) - num_pages();
  if (more > 0) {
    SCD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> added, cache_.Acquire(more));
    std::vector<std::int32_t> pages = pages_;
    pages.insert(pages.end(), added.begin(), added.end());
    if (absl::Status status = block_table_.Set(pages); !status.ok()) {
      cache_.Release(added);
      return status;
    }
    pages_ = std::move(pages);
  }
  max_tokens_ = num_tokens;
  return absl::OkStatus();
}

absl::Status Sequence::MakeWritable(std::int64_t begin, std::int64_t end) {
  if (begin < 0 || begin > end || end > num_pages() * layout().page_tokens) {
    return absl::OutOfRangeError(
        absl::StrCat("sequence: positions [", begin, ", ", end, ") of a sequence of ", max_tokens_));
  }
  if (begin == end) return absl::OkStatus();
  for (std::int64_t i = begin / layout().page_tokens; i < cache_.PagesFor(end); ++i) {
    const std::int32_t shared = pages_[static_cast<std::size_t>(i)];
    if (cache_.IsPrivate(shared)) continue;
    SCD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> own, cache_.Acquire(1));
    std::vector<std::int32_t> pages = pages_;
    pages[static_cast<std::size_t>(i)] = own.front();
    absl::Status status = cache_.memory().CopyPage(shared, own.front());
    if (status.ok()) status = block_table_.Set(pages);
    if (!status.ok()) {
      cache_.Release(own);
      return status;
    }
    pages_ = std::move(pages);
    cache_.Release({&shared, 1});
  }
  return absl::OkStatus();
}

std::int64_t Sequence::Publish(absl::Span<const Digest> keys, std::int64_t end) {
  const std::int64_t blocks =
      std::min({static_cast<std::int64_t>(keys.size()), end / layout().page_tokens, num_pages()});
  std::int64_t added = 0;
  for (; num_published_ < blocks; ++num_published_) {
    const auto i = static_cast<std::size_t>(num_published_);
    if (cache_.Publish(keys.first(i + 1), pages_[i])) ++added;
  }
  return added;
}

std::int64_t Sequence::NumPagesInUse() const {
  absl::MutexLock lock(&mutex_);
  return valid_.empty() ? 0 : cache_.PagesFor(valid_.rbegin()->second);
}

std::int64_t Sequence::swap_bytes() const {
  return NumPagesInUse() * layout().page_bytes();
}

absl::Status Sequence::SwapOut() {
  if (swapped_out()) return absl::FailedPreconditionError("sequence: it is swapped out already");
  const auto page_bytes = static_cast<std::size_t>(layout().page_bytes());
  const auto in_use = static_cast<std::size_t>(NumPagesInUse());
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> bytes,
                       cache_.backend().Allocate(MemoryKind::kStaging, in_use * page_bytes));
  for (std::size_t i = 0; i < in_use; ++i) {
    SCD_RETURN_IF_ERROR(
        cache_.memory().ReadPage(pages_[i], static_cast<std::byte*>(bytes->data()) + i * page_bytes));
  }
  swapped_ = std::move(bytes);
  cache_.Release(pages_);
  pages_.clear();
  return absl::OkStatus();
}

absl::Status Sequence::SwapIn() {
  if (!swapped_out()) return absl::FailedPreconditionError("sequence: it is not swapped out");
  const auto page_bytes = static_cast<std::size_t>(layout().page_bytes());
  SCD_ASSIGN_OR_RETURN(std::vector<std::int32_t> pages, cache_.Acquire(cache_.PagesFor(max_tokens_)));
  const auto in_use = static_cast<std::size_t>(NumPagesInUse());
  absl::Status status = block_table_.Set(pages);
  for (std::size_t i = 0; status.ok() && i < in_use; ++i) {
    status =
        cache_.memory().WritePage(pages[i], static_cast<const std::byte*>(swapped_->data()) + i * page_bytes);
  }
  if (!status.ok()) {
    cache_.Release(pages);
    return status;
  }
  pages_ = std::move(pages);
  swapped_.reset();
  return absl::OkStatus();
}

absl::Status Sequence::MarkValid(std::int64_t begin, std::int64_t end) {
  if (begin < 0 || begin > end || end > max_tokens_) {
    return absl::OutOfRangeError(
        absl::StrCat("sequence: positions [", begin, ", ", end, ") of a sequence of ", max_tokens_));
  }
  if (begin == end) return absl::OkStatus();
  std::vector<std::function<void()>> due;
  {
    absl::MutexLock lock(&mutex_);
    // Every interval that touches [begin, end) is swallowed by it.
    auto it = valid_.upper_bound(begin);
    if (it != valid_.begin() && std::prev(it)->second >= begin) --it;
    while (it != valid_.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = valid_.erase(it);
    }
    valid_.emplace(begin, end);
    const auto first_not_due = waiting_.upper_bound(ValidLength());
    for (auto w = waiting_.begin(); w != first_not_due; ++w) due.push_back(std::move(w->second));
    waiting_.erase(waiting_.begin(), first_not_due);
  }
  for (const std::function<void()>& callback : due) callback();
  return absl::OkStatus();
}

std::int64_t Sequence::valid_length() const {
  absl::MutexLock lock(&mutex_);
  return ValidLength();
}

std::int64_t Sequence::ValidLength() const {
  if (valid_.empty() || valid_.begin()->first != 0) return 0;
  return valid_.begin()->second;
}

void Sequence::WhenValid(std::int64_t length, std::function<void()> callback) {
  {
    absl::MutexLock lock(&mutex_);
    if (ValidLength() < length) {
      waiting_.emplace(length, std::move(callback));
      return;
    }
  }
  callback();
}

}  // namespace scd
