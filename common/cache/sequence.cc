#include "common/cache/sequence.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Puts the page numbers where kernels read them.
absl::StatusOr<std::unique_ptr<Buffer>> MakeBlockTable(Backend& backend,
                                                       const std::vector<std::int32_t>& pages) {
  const Shape shape{static_cast<std::int64_t>(pages.size())};
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> table,
                       backend.Allocate(MemoryKind::kDevice, pages.size() * sizeof(std::int32_t)));
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, backend.CreateStream());
  SCD_RETURN_IF_ERROR(backend.Copy(*stream, table->View(DType::kI32, shape),
                                   ConstTensorView(pages.data(), DType::kI32, shape)));
  SCD_RETURN_IF_ERROR(backend.Synchronize(*stream));
  return table;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Sequence>> Sequence::Create(PagedKvCache& cache, std::int64_t max_tokens) {
  if (max_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence: max_tokens is ", max_tokens, ", expected at least 1"));
  }
  SCD_ASSIGN_OR_RETURN(std::vector<std::int32_t> pages, cache.Acquire(cache.PagesFor(max_tokens)));
  auto give_back = absl::MakeCleanup([&cache, &pages] { cache.Release(pages); });
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> block_table, MakeBlockTable(cache.backend(), pages));
  std::move(give_back).Cancel();
  return absl::WrapUnique(new Sequence(cache, max_tokens, std::move(pages), std::move(block_table)));
}

Sequence::Sequence(PagedKvCache& cache, std::int64_t max_tokens, std::vector<std::int32_t> pages,
                   std::unique_ptr<Buffer> block_table)
    : cache_(cache),
      max_tokens_(max_tokens),
      pages_(std::move(pages)),
      block_table_(std::move(block_table)) {}

Sequence::~Sequence() {
  cache_.Release(pages_);
}

PagedKv Sequence::view(std::int64_t layer) const {
  return PagedKv{cache_.k_pages(layer), cache_.v_pages(layer),
                 block_table_->View(DType::kI32, {num_pages()})};
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
