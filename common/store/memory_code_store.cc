#include "common/store/memory_code_store.h"

#include <iterator>
#include <utility>

namespace scd {

std::vector<std::shared_ptr<const CodeBlock>> MemoryCodeStore::FindAtOnce(absl::Span<const Digest> keys,
                                                                          std::size_t first) {
  std::vector<std::shared_ptr<const CodeBlock>> blocks;
  const absl::MutexLock lock(&mutex_);
  for (const Digest& key : keys.subspan(first)) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) break;
    blocks.push_back(found->second->block);
  }
  MarkUsed(keys.first(first + blocks.size()));
  hits_ += static_cast<std::int64_t>(blocks.size());
  misses_ += static_cast<std::int64_t>(keys.size() - first - blocks.size());
  return blocks;
}

void MemoryCodeStore::MarkUsed(absl::Span<const Digest> keys) {
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    if (const auto found = by_key_.find(*key); found != by_key_.end()) {
      by_use_.splice(by_use_.begin(), by_use_, found->second);
    }
  }
}

void MemoryCodeStore::Insert(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) {
  const Digest& key = chain.back();
  const std::int64_t bytes = block->size_bytes();
  if (bytes > capacity_bytes_) return;
  // What is dropped is freed after the lock.
  std::list<Entry> dropped;
  const absl::MutexLock lock(&mutex_);
  MarkUsed(chain);
  if (by_key_.contains(key)) return;
  while (size_bytes_ + bytes > capacity_bytes_) {
    const auto last = std::prev(by_use_.end());
    size_bytes_ -= last->block->size_bytes();
    by_key_.erase(last->key);
    dropped.splice(dropped.begin(), by_use_, last);
    ++evicted_;
  }
  by_use_.push_front({key, std::move(block)});
  by_key_.emplace(key, by_use_.begin());
  size_bytes_ += bytes;
  MarkUsed(chain);
}

std::int64_t MemoryCodeStore::size_bytes() const {
  const absl::MutexLock lock(&mutex_);
  return size_bytes_;
}

std::vector<CodeStoreStats> MemoryCodeStore::stats() const {
  const absl::MutexLock lock(&mutex_);
  CodeStoreStats stats;
  stats.tier = "memory";
  stats.capacity_bytes = capacity_bytes_;
  stats.num_blocks = static_cast<std::int64_t>(by_use_.size());
  stats.size_bytes = size_bytes_;
  stats.hits = hits_;
  stats.misses = misses_;
  stats.evicted = evicted_;
  return {stats};
}

}  // namespace scd
