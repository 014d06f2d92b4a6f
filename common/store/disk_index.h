// What a folder of blocks holds, in the order of its use and within its bytes. Not thread-safe.
#ifndef SCD_COMMON_STORE_DISK_INDEX_H_
#define SCD_COMMON_STORE_DISK_INDEX_H_

#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/io/digest.h"
#include "common/store/code_block.h"

namespace scd {

class DiskIndex {
 public:
  struct Entry {
    Digest key;
    std::int64_t bytes = 0;  // of its file
    absl::Time created;
    absl::Time used;  // no two entries have the same
    // Until it is in its file.
    std::shared_ptr<const CodeBlock> waiting;
  };

  explicit DiskIndex(std::int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // What a file of so many bytes takes on the disk.
  static std::int64_t OnDisk(std::int64_t bytes);

  // Null where it is not there. Valid until the entry is erased.
  Entry* Find(const Digest& key);
  // The first counts as the latest.
  void MarkUsed(absl::Span<const Digest> keys, absl::Time now);
  // Not there yet. Behind all others, and `used` as it is; for what was there before the start, latest first.
  void AddOlder(Entry entry);
  // Not there yet, and fits. As used now.
  void Add(Entry entry, absl::Time now);
  void Erase(const Digest& key);
  // Erases what was used longest ago until so many more bytes fit, and returns it.
  std::vector<Entry> MakeRoom(std::int64_t bytes);
  // Erases what was created before, and returns it.
  std::vector<Entry> EraseCreatedBefore(absl::Time time);
  // Keys and times of what was used since the last call and is in its file.
  std::vector<std::pair<Digest, absl::Time>> TakeUsed();

  std::int64_t num_blocks() const { return static_cast<std::int64_t>(by_use_.size()); }
  std::int64_t size_bytes() const { return size_bytes_; }
  std::int64_t capacity_bytes() const { return capacity_bytes_; }

 private:
  using Place = std::list<Entry>::iterator;
  Entry Take(Place place);
  absl::Time NextUse(absl::Time now);

  const std::int64_t capacity_bytes_;
  std::int64_t size_bytes_ = 0;
  absl::Time last_use_ = absl::InfinitePast();
  absl::Time taken_until_ = absl::InfinitePast();
  std::list<Entry> by_use_;  // most recently used first
  absl::flat_hash_map<Digest, Place> by_key_;
};

}  // namespace scd

#endif  // SCD_COMMON_STORE_DISK_INDEX_H_
