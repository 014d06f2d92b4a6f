// The loop that byte-pair encoders share: of all neighbouring symbols that may merge, the best pair merges
// first, the leftmost of equals, until none is left. O(n log n) in the number of symbols.
#ifndef SCD_COMMON_MODEL_SYMBOL_MERGER_H_
#define SCD_COMMON_MODEL_SYMBOL_MERGER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

namespace scd {

// A stretch of the text that stands for one token, or for none yet (id < 0).
struct Symbol {
  std::int32_t id;
  std::uint32_t begin;  // byte offsets in the text
  std::uint32_t end;
};

struct MergeRule {
  double priority;  // lower merges earlier
  std::int32_t id;  // of the merged symbol
};

// Merges `symbols` (consecutive stretches) in place. find(left, right) -> std::optional<MergeRule>.
template <typename Find>
void MergeSymbols(std::vector<Symbol>* symbols, const Find& find) {
  struct Candidate {
    double priority;
    std::uint32_t left, right;          // places in the list
    std::uint32_t left_end, right_end;  // to see that neither has merged since
    std::int32_t id;
    bool operator<(const Candidate& o) const {  // the queue gives the largest first
      return priority != o.priority ? priority > o.priority : left > o.left;
    }
  };
  constexpr std::uint32_t kNone = UINT32_MAX;
  std::vector<Symbol>& list = *symbols;
  const auto size = static_cast<std::uint32_t>(list.size());
  if (size < 2) return;
  std::vector<std::uint32_t> previous(size), next(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    previous[i] = i == 0 ? kNone : i - 1;
    next[i] = i + 1 == size ? kNone : i + 1;
  }
  std::vector<bool> alive(size, true);
  std::vector<Candidate> found;
  found.reserve(size);
  const auto candidate = [&](std::uint32_t left, std::uint32_t right) -> std::optional<Candidate> {
    const std::optional<MergeRule> rule = find(list[left], list[right]);
    if (!rule) return std::nullopt;
    return Candidate{rule->priority, left, right, list[left].end, list[right].end, rule->id};
  };
  for (std::uint32_t i = 0; i + 1 < size; ++i) {
    if (const auto c = candidate(i, i + 1)) found.push_back(*c);
  }
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(found));
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    // A symbol that merged has another end or is gone.
    if (!alive[best.left] || !alive[best.right] || list[best.left].end != best.left_end ||
        list[best.right].end != best.right_end) {
      continue;
    }
    list[best.left].id = best.id;
    list[best.left].end = list[best.right].end;
    alive[best.right] = false;
    next[best.left] = next[best.right];
    if (next[best.left] != kNone) {
      previous[next[best.left]] = best.left;
      if (const auto c = candidate(best.left, next[best.left])) queue.push(*c);
    }
    if (previous[best.left] != kNone) {
      if (const auto c = candidate(previous[best.left], best.left)) queue.push(*c);
    }
  }
  std::size_t kept = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    if (alive[i]) list[kept++] = list[i];
  }
  list.resize(kept);
}

}  // namespace scd

#endif  // SCD_COMMON_MODEL_SYMBOL_MERGER_H_
