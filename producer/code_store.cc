#include "producer/code_store.h"

#include <utility>

namespace scd {

std::vector<CodeColumn> PlanColumns(const LayerPlan& plan) {
  std::vector<CodeColumn> columns;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    for (const SentKind& sent : SentKinds(plan.layers[i])) {
      columns.push_back({static_cast<std::int64_t>(i), sent.kind, sent.rank});
    }
  }
  return columns;
}

std::int64_t CodeBlock::size_bytes() const {
  // A key, a list node and a hash slot go with each block.
  std::size_t bytes = sizeof(CodeBlock) + 128;
  for (const std::string& payload : payloads) bytes += sizeof(std::string) + payload.capacity();
  return static_cast<std::int64_t>(bytes);
}

std::vector<Digest> BlockKeys(const Digest& model, const Digest& bundle, const LayerPlan& plan,
                              std::int64_t first_token, absl::Span<const std::int32_t> token_ids,
                              std::int64_t block_tokens) {
  const auto add_tokens = [&token_ids](DigestBuilder& builder, std::int64_t begin, std::int64_t count) {
    builder.AddBytes(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(token_ids.data() + begin),
                                         static_cast<std::size_t>(count) * sizeof(std::int32_t)));
  };
  DigestBuilder root("scd.codes.v2");
  const std::string_view codec = CodecName(plan.codec);
  root.AddDigest(model).AddDigest(bundle).AddString({codec.data(), codec.size()});
  root.AddInt(static_cast<std::int64_t>(plan.layers.size()));
  for (const LayerRanks& layer : plan.layers) {
    const std::vector<SentKind> sent = SentKinds(layer);
    root.AddInt(static_cast<std::int64_t>(layer.treatment)).AddInt(static_cast<std::int64_t>(sent.size()));
    for (const SentKind& kind : sent) root.AddInt(static_cast<std::int64_t>(kind.kind)).AddInt(kind.rank);
  }
  root.AddInt(first_token);
  add_tokens(root, 0, first_token);

  std::vector<Digest> keys;
  Digest previous = root.Finish();
  const auto end = static_cast<std::int64_t>(token_ids.size());
  for (std::int64_t begin = first_token; begin + block_tokens <= end; begin += block_tokens) {
    DigestBuilder block("scd.codes.block.v1");
    block.AddDigest(previous);
    add_tokens(block, begin, block_tokens);
    previous = block.Finish();
    keys.push_back(previous);
  }
  return keys;
}

std::vector<std::shared_ptr<const CodeBlock>> MemoryCodeStore::FindPrefix(absl::Span<const Digest> keys) {
  std::vector<std::shared_ptr<const CodeBlock>> blocks;
  const absl::MutexLock lock(&mutex_);
  for (const Digest& key : keys) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) break;
    blocks.push_back(found->second->block);
  }
  MarkUsed(keys.subspan(0, blocks.size()));
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

}  // namespace scd
