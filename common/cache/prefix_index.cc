#include "common/cache/prefix_index.h"

#include <algorithm>

namespace scd {

struct PrefixIndex::Node {
  Digest key;
  std::int32_t page = 0;
  Node* before = nullptr;
  std::vector<Node*> behind;
  std::uint64_t last_use = 0;
  bool unheld = false;
};

PrefixIndex::PrefixIndex() = default;
PrefixIndex::~PrefixIndex() = default;

bool PrefixIndex::Insert(absl::Span<const Digest> chain, std::int32_t page) {
  const Digest& key = chain.back();
  if (by_page_.contains(page) || by_key_.contains(key)) return false;
  Node* before = nullptr;
  if (chain.size() > 1) {
    const auto it = by_key_.find(chain[chain.size() - 2]);
    if (it == by_key_.end()) return false;
    before = it->second.get();
  }
  auto node = std::make_unique<Node>();
  node->key = key;
  node->page = page;
  node->before = before;
  if (before != nullptr) {
    before->behind.push_back(node.get());
    unheld_ends_.erase(before->last_use);
  }
  by_page_.emplace(page, node.get());
  by_key_.emplace(key, std::move(node));
  return true;
}

std::vector<std::int32_t> PrefixIndex::Find(absl::Span<const Digest> keys) const {
  std::vector<std::int32_t> pages;
  for (const Digest& key : keys) {
    const auto it = by_key_.find(key);
    if (it == by_key_.end()) break;
    pages.push_back(it->second->page);
  }
  return pages;
}

std::int64_t PrefixIndex::CountKnown(absl::Span<const Digest> keys) const {
  std::int64_t count = 0;
  for (const Digest& key : keys) {
    if (!by_key_.contains(key)) break;
    ++count;
  }
  return count;
}

void PrefixIndex::MarkHeld(std::int32_t page) {
  SetUnheld(*by_page_.at(page), false);
}

void PrefixIndex::MarkUnheld(std::int32_t page) {
  SetUnheld(*by_page_.at(page), true);
}

void PrefixIndex::SetUnheld(Node& node, bool unheld) {
  unheld_.erase(node.last_use);
  unheld_ends_.erase(node.last_use);
  node.unheld = unheld;
  node.last_use = ++now_;
  if (!unheld) return;
  unheld_.emplace(node.last_use, &node);
  if (node.behind.empty()) unheld_ends_.emplace(node.last_use, &node);
}

std::vector<std::int32_t> PrefixIndex::Evict() {
  std::vector<std::int32_t> pages;
  Node& node = unheld_ends_.empty() ? *unheld_.begin()->second : *unheld_ends_.begin()->second;
  if (Node* const before = node.before; before != nullptr) {
    before->behind.erase(std::find(before->behind.begin(), before->behind.end(), &node));
    if (before->unheld && before->behind.empty()) unheld_ends_.emplace(before->last_use, before);
  }
  Remove(node, pages);
  return pages;
}

void PrefixIndex::Remove(Node& node, std::vector<std::int32_t>& unheld_pages) {
  std::vector<Node*> left = {&node};
  while (!left.empty()) {
    Node* const next = left.back();
    left.pop_back();
    left.insert(left.end(), next->behind.begin(), next->behind.end());
    if (next->unheld) unheld_pages.push_back(next->page);
    unheld_.erase(next->last_use);
    unheld_ends_.erase(next->last_use);
    by_page_.erase(next->page);
    by_key_.erase(Digest(next->key));
  }
}

}  // namespace scd
