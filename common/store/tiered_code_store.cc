#include "common/store/tiered_code_store.h"

#include <cstddef>
#include <utility>

namespace scd {

TieredCodeStore::TieredCodeStore(std::vector<std::unique_ptr<CodeStore>> tiers) : tiers_(std::move(tiers)) {}

std::vector<std::shared_ptr<const CodeBlock>> TieredCodeStore::FindPrefix(absl::Span<const Digest> keys) {
  std::vector<std::shared_ptr<const CodeBlock>> blocks;
  for (std::size_t tier = 0; tier < tiers_.size() && blocks.size() < keys.size(); ++tier) {
    for (std::shared_ptr<const CodeBlock>& found : tiers_[tier]->FindPrefix(keys.subspan(blocks.size()))) {
      if (tier > 0) found = CopyToMemory(*found);
      for (std::size_t faster = 0; faster < tier; ++faster) {
        tiers_[faster]->Insert(keys.first(blocks.size() + 1), found);
      }
      blocks.push_back(std::move(found));
    }
  }
  return blocks;
}

void TieredCodeStore::Insert(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) {
  for (const std::unique_ptr<CodeStore>& tier : tiers_) tier->Insert(chain, block);
}

std::vector<CodeStoreStats> TieredCodeStore::stats() const {
  std::vector<CodeStoreStats> all;
  for (const std::unique_ptr<CodeStore>& tier : tiers_) {
    for (CodeStoreStats& stats : tier->stats()) all.push_back(std::move(stats));
  }
  return all;
}

}  // namespace scd
