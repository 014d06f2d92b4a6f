#include "common/store/tiered_code_store.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace scd {

TieredCodeStore::TieredCodeStore(std::vector<std::unique_ptr<CodeStore>> tiers) : tiers_(std::move(tiers)) {}

void TieredCodeStore::Learn(std::size_t index, absl::Span<const Digest> keys, std::size_t known, Blocks found,
                            Blocks& blocks) {
  for (std::shared_ptr<const CodeBlock>& block : found) {
    if (index > 0) block = CopyToMemory(*block);
    const absl::Span<const Digest> chain = keys.first(++known);
    for (std::size_t faster = 0; faster < index; ++faster) tiers_[faster]->Insert(chain, block);
    for (std::size_t slower = index + 1; index > 0 && slower < tiers_.size(); ++slower) {
      tiers_[slower]->Offer(chain, block);
    }
    blocks.push_back(std::move(block));
  }
}

std::vector<std::shared_ptr<const CodeBlock>> TieredCodeStore::FindPrefix(absl::Span<const Digest> keys) {
  Blocks blocks;
  for (std::size_t i = 0; i < tiers_.size() && blocks.size() < keys.size(); ++i) {
    const std::size_t known = blocks.size();
    Learn(i, keys, known, tiers_[i]->FindPrefix(keys.subspan(known)), blocks);
  }
  return blocks;
}

std::vector<std::shared_ptr<const CodeBlock>> TieredCodeStore::FindAtOnce(absl::Span<const Digest> keys,
                                                                          std::size_t first) {
  Blocks blocks;
  for (std::size_t i = 0; i < tiers_.size() && first + blocks.size() < keys.size(); ++i) {
    const std::size_t known = first + blocks.size();
    Learn(i, keys, known, tiers_[i]->FindAtOnce(keys, known), blocks);
  }
  return blocks;
}

bool TieredCodeStore::asks_others() const {
  return std::any_of(tiers_.begin(), tiers_.end(), [](const auto& tier) { return tier->asks_others(); });
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
