// Codes of prompts that were prefilled before, by blocks of tokens.
//
// A block is named by everything its codes depend on (code_keys.h), all tokens up to the block's end among
// it, so a block may be taken whatever prompt it came from, by whatever process. The interface leaves the
// place open: memory, files, a server, or several of them (tiered_code_store.h).
#ifndef SCD_COMMON_STORE_CODE_STORE_H_
#define SCD_COMMON_STORE_CODE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/io/digest.h"
#include "common/store/code_block.h"

namespace scd {

// One place where blocks are kept.
struct CodeStoreStats {
  std::string tier;                 // one of a few fixed words: "memory", "disk", "redis"
  std::string place;                // a folder or an address, for logs; empty in memory
  std::int64_t capacity_bytes = 0;  // 0: the place has no bound of its own
  std::int64_t num_blocks = 0;      // kept now, as far as this process knows
  std::int64_t size_bytes = 0;
  // Blocks since the start.
  std::int64_t hits = 0;             // asked for and given
  std::int64_t misses = 0;           // asked for and not given
  std::int64_t evicted = 0;          // given up for others
  std::int64_t dropped_expired = 0;  // too old
  std::int64_t dropped_corrupt = 0;  // damaged, of another version or under another's name; never given
  std::int64_t read_failures = 0;    // could not be read, whatever they hold
  std::int64_t write_failures = 0;   // could not be written
  std::int64_t queue_drops = 0;      // not written, because too many waited
};

// Thread-safe. No call fails: a place that is out of order knows no blocks and keeps none, and says so by
// statistics and warnings.
class CodeStore {
 public:
  virtual ~CodeStore() = default;
  // The blocks of the longest known prefix of `keys`; they count as used just now. May read files or ask a
  // server.
  virtual std::vector<std::shared_ptr<const CodeBlock>> FindPrefix(absl::Span<const Digest> keys) = 0;
  // Of the keys from index `first` on the blocks of the longest prefix that is known without asking another
  // machine; the keys before them count as used too. May read files of this machine.
  virtual std::vector<std::shared_ptr<const CodeBlock>> FindAtOnce(absl::Span<const Digest> keys,
                                                                   std::size_t first) = 0;
  // Whether FindPrefix asks other machines, so that it may wait for them and know more than FindAtOnce.
  virtual bool asks_others() const = 0;
  // Keeps the block that the last key names; the keys before it are those of the blocks before it, which
  // count as used just now, the first as the latest. Makes room by dropping the least recently used: ends of
  // chains before what they need to be found. A block larger than the whole store is not kept. Never waits
  // for files or servers: where writing takes time it comes later.
  virtual void Insert(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) = 0;
  // The block that the last key names was found in a faster place. Where other machines look here too, and it
  // is missing, it is kept, if that is no effort now; else nothing happens.
  virtual void Offer(absl::Span<const Digest> /*chain*/, std::shared_ptr<const CodeBlock> /*block*/) {}
  // Of each place, in the order in which they are asked.
  virtual std::vector<CodeStoreStats> stats() const = 0;
};

}  // namespace scd

#endif  // SCD_COMMON_STORE_CODE_STORE_H_
