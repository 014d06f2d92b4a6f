// Which pages hold which known blocks, and in which order those that nobody holds are given up.
//
// Blocks form chains (common/cache/block_keys.h): a block is found only after those before it. Of the pages
// that nobody holds, the least recently used end of a chain goes first, so that what is needed to find others
// stays longest. Not thread-safe.
#ifndef SCD_COMMON_CACHE_PREFIX_INDEX_H_
#define SCD_COMMON_CACHE_PREFIX_INDEX_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/io/digest.h"

namespace scd {

class PrefixIndex {
 public:
  PrefixIndex();
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // Puts `page`, which is held, under the last key of `chain` (not empty). False, and nothing changes, where
  // that key is known already, the key before it is not, or the page stands under another key.
  bool Insert(absl::Span<const Digest> chain, std::int32_t page);
  // The pages of the longest known beginning of `keys`.
  std::vector<std::int32_t> Find(absl::Span<const Digest> keys) const;
  // How many they are.
  std::int64_t CountKnown(absl::Span<const Digest> keys) const;

  bool Contains(std::int32_t page) const { return by_page_.contains(page); }
  // Of pages in the index: somebody holds it, or nobody does any more (and it was used now).
  void MarkHeld(std::int32_t page);
  void MarkUnheld(std::int32_t page);

  std::int64_t size() const { return static_cast<std::int64_t>(by_page_.size()); }
  std::int64_t num_unheld() const { return static_cast<std::int64_t>(unheld_.size()); }

  // Gives up at least one page that nobody holds; there is one. Returns those given up. Held pages that can
  // no longer be found leave the index too.
  std::vector<std::int32_t> Evict();

 private:
  struct Node;
  using ByUse = std::map<std::uint64_t, Node*>;

  void SetUnheld(Node& node, bool unheld);
  // Takes the node and all behind it out.
  void Remove(Node& node, std::vector<std::int32_t>& unheld_pages);

  absl::flat_hash_map<Digest, std::unique_ptr<Node>> by_key_;
  absl::flat_hash_map<std::int32_t, Node*> by_page_;
  std::uint64_t now_ = 0;
  ByUse unheld_;       // by last use
  ByUse unheld_ends_;  // of these, those without any block behind them
};

}  // namespace scd

#endif  // SCD_COMMON_CACHE_PREFIX_INDEX_H_
