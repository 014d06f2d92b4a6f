// Several code stores as one: fast ones are asked first and learn what slower ones knew.
#ifndef SCD_COMMON_STORE_TIERED_CODE_STORE_H_
#define SCD_COMMON_STORE_TIERED_CODE_STORE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/store/code_store.h"

namespace scd {

class TieredCodeStore : public CodeStore {
 public:
  // At least one; the fastest first.
  explicit TieredCodeStore(std::vector<std::unique_ptr<CodeStore>> tiers);

  // Each tier is asked for what those before it do not know. What it knows goes to all of those, and is given
  // as a copy in memory: nothing holds on to a slower tier's files or replies. What no memory knew is offered
  // to the tiers behind it.
  std::vector<std::shared_ptr<const CodeBlock>> FindPrefix(absl::Span<const Digest> keys) override;
  std::vector<std::shared_ptr<const CodeBlock>> FindAtOnce(absl::Span<const Digest> keys,
                                                           std::size_t first) override;
  bool asks_others() const override;
  // Goes to every tier.
  void Insert(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) override;
  std::vector<CodeStoreStats> stats() const override;

 private:
  using Blocks = std::vector<std::shared_ptr<const CodeBlock>>;
  // Takes what tier `index` found behind the first `known` keys into the faster ones, and into `blocks`, and
  // offers it to the slower ones where the first tier did not have it.
  void Learn(std::size_t index, absl::Span<const Digest> keys, std::size_t known, Blocks found,
             Blocks& blocks);

  const std::vector<std::unique_ptr<CodeStore>> tiers_;
};

}  // namespace scd

#endif  // SCD_COMMON_STORE_TIERED_CODE_STORE_H_
