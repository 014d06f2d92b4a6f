// Codes of prompts that were prefilled before, by blocks of tokens.
//
// A block is named by everything its codes depend on (code_keys.h), all tokens up to the block's end among
// it, so a block may be taken whatever prompt it came from. The interface leaves the place open; the one in
// memory is below.
#ifndef SCD_PRODUCER_CODE_STORE_H_
#define SCD_PRODUCER_CODE_STORE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/config/layer_plan.h"
#include "common/io/digest.h"

namespace scd {

// Codes of one layer and kind that a plan sends, in the order in which they are sent.
struct CodeColumn {
  std::int64_t layer = 0;
  CodeKind kind = CodeKind::kK;
  std::int64_t rank = 0;
};
std::vector<CodeColumn> PlanColumns(const LayerPlan& plan);

// Codes of consecutive tokens for every column of a plan. Immutable once shared.
struct CodeBlock {
  std::int64_t num_tokens = 0;
  std::vector<std::string> payloads;  // one for each column: row-major [num_tokens, rank]

  std::int64_t size_bytes() const;  // of the payloads and their bookkeeping
};

// Thread-safe.
class CodeStore {
 public:
  virtual ~CodeStore() = default;
  // The blocks of the longest known prefix of `keys`; they count as used just now.
  virtual std::vector<std::shared_ptr<const CodeBlock>> FindPrefix(absl::Span<const Digest> keys) = 0;
  // Keeps the block that the last key names; the keys before it are those of the blocks before it, which
  // count as used just now, the first as the latest. Makes room by dropping the least recently used: ends of
  // chains before what they need to be found. A block larger than the whole store is not kept.
  virtual void Insert(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) = 0;
  virtual std::int64_t size_bytes() const = 0;
  virtual std::int64_t capacity_bytes() const = 0;
};

class MemoryCodeStore : public CodeStore {
 public:
  explicit MemoryCodeStore(std::int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  std::vector<std::shared_ptr<const CodeBlock>> FindPrefix(absl::Span<const Digest> keys) override;
  void Insert(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) override;
  std::int64_t size_bytes() const override;
  std::int64_t capacity_bytes() const override { return capacity_bytes_; }

 private:
  struct Entry {
    Digest key;
    std::shared_ptr<const CodeBlock> block;
  };

  void MarkUsed(absl::Span<const Digest> keys) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::int64_t capacity_bytes_;
  mutable absl::Mutex mutex_;
  std::int64_t size_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Entry> by_use_ ABSL_GUARDED_BY(mutex_);  // most recently used first
  absl::flat_hash_map<Digest, std::list<Entry>::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace scd

#endif  // SCD_PRODUCER_CODE_STORE_H_
