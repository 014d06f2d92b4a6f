#include "common/store/disk_index.h"

#include <algorithm>
#include <iterator>

namespace scd {

std::int64_t DiskIndex::OnDisk(std::int64_t bytes) {
  constexpr std::int64_t kFileUnit = 4096;
  return (bytes + kFileUnit - 1) / kFileUnit * kFileUnit;
}

DiskIndex::Entry* DiskIndex::Find(const Digest& key) {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &*found->second;
}

absl::Time DiskIndex::NextUse(absl::Time now) {
  return last_use_ = std::max(now, last_use_ + absl::Nanoseconds(1));
}

void DiskIndex::MarkUsed(absl::Span<const Digest> keys, absl::Time now) {
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    const auto found = by_key_.find(*key);
    if (found == by_key_.end()) continue;
    by_use_.splice(by_use_.begin(), by_use_, found->second);
    found->second->used = NextUse(now);
  }
}

void DiskIndex::AddOlder(Entry entry) {
  size_bytes_ += OnDisk(entry.bytes);
  last_use_ = taken_until_ = std::max(last_use_, entry.used);
  const Digest key = entry.key;
  by_use_.push_back(std::move(entry));
  by_key_.emplace(key, std::prev(by_use_.end()));
}

void DiskIndex::Add(Entry entry, absl::Time now) {
  size_bytes_ += OnDisk(entry.bytes);
  entry.used = NextUse(now);
  const Digest key = entry.key;
  by_use_.push_front(std::move(entry));
  by_key_.emplace(key, by_use_.begin());
}

DiskIndex::Entry DiskIndex::Take(Place place) {
  Entry entry = std::move(*place);
  size_bytes_ -= OnDisk(entry.bytes);
  by_key_.erase(entry.key);
  by_use_.erase(place);
  return entry;
}

void DiskIndex::Erase(const Digest& key) {
  if (const auto found = by_key_.find(key); found != by_key_.end()) Take(found->second);
}

std::vector<DiskIndex::Entry> DiskIndex::MakeRoom(std::int64_t bytes) {
  std::vector<Entry> erased;
  while (!by_use_.empty() && size_bytes_ + OnDisk(bytes) > capacity_bytes_) {
    erased.push_back(Take(std::prev(by_use_.end())));
  }
  return erased;
}

std::vector<DiskIndex::Entry> DiskIndex::EraseCreatedBefore(absl::Time time) {
  std::vector<Entry> erased;
  for (Place place = by_use_.begin(); place != by_use_.end();) {
    const Place here = place++;
    if (here->created < time) erased.push_back(Take(here));
  }
  return erased;
}

std::vector<std::pair<Digest, absl::Time>> DiskIndex::TakeUsed() {
  std::vector<std::pair<Digest, absl::Time>> used;
  for (const Entry& entry : by_use_) {
    if (entry.used <= taken_until_) break;
    if (entry.waiting == nullptr) used.emplace_back(entry.key, entry.used);
  }
  taken_until_ = last_use_;
  return used;
}

}  // namespace scd
