// What prefills take from earlier ones and from each other: KV pages of known blocks, and their codes.
//
// A block, page_tokens positions, need not be computed where its KV page is known and its codes, if any are
// wanted, are in the code store. Pages alone are not enough: Patch codes and residuals cannot be made from
// them, so a block without codes (of this plan, bundle and codec) is computed again. Codes alone save their
// encoding: the block is run for the state of what follows it. Nothing here waits for another machine: what
// only such a one knows has to be found before. Not thread-safe; what is given to it is guarded by its
// caller.
#ifndef SCD_PRODUCER_SHARED_PREFIXES_H_
#define SCD_PRODUCER_SHARED_PREFIXES_H_

#include <cstdint>

#include "common/cache/paged_kv_cache.h"
#include "common/store/code_store.h"
#include "producer/prefill_entry.h"

namespace scd {

class SharedPrefixes {
 public:
  // Pages are shared where share_pages; `store` may be null. Both outlive this. Codes come from chunks of at
  // most chunk_tokens.
  SharedPrefixes(PagedKvCache& cache, CodeStore* store, bool share_pages, std::int64_t chunk_tokens)
      : cache_(cache), store_(store), share_pages_(share_pages), chunk_tokens_(chunk_tokens) {}

  // Whether codes of the request go to the store. A chunk shorter than a granule of the plan gives none that
  // could be cut into blocks.
  bool Stores(const PrefillInput& input) const;

  // The codes that were known when the entry came. No others are made of their positions.
  StoredCodes TakeKnown(PrefillEntry& entry);
  // Moves the entry on over the blocks from its position on that need not be computed. Returns their codes
  // as far as they are still wanted.
  StoredCodes Take(PrefillEntry& entry);
  // Whether blocks that need not be computed follow the block at the entry's position, so that a chunk should
  // end between them: so it is where another request began at another position.
  bool KnownAfterNext(const PrefillEntry& entry) const;
  // Whether `leader` is about to compute the block at the follower's position for it too.
  bool Computes(const PrefillEntry& leader, const PrefillEntry& follower) const;
  // Makes known what the entry has computed.
  void Publish(PrefillEntry& entry);

 private:
  std::int64_t page_tokens() const { return cache_.layout().page_tokens; }
  // Index of the block at the entry's position; -1 where the position lies inside a block, or nothing is
  // shared from it on.
  std::int64_t NextBlock(const PrefillEntry& entry) const;

  PagedKvCache& cache_;
  CodeStore* const store_;
  const bool share_pages_;
  const std::int64_t chunk_tokens_;
};

}  // namespace scd

#endif  // SCD_PRODUCER_SHARED_PREFIXES_H_
