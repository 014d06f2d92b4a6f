#include "consumer/scheduler.h"

#include <algorithm>

namespace scd {

std::vector<std::uint64_t> Scheduler::NextDecodeBatch(absl::Span<const std::uint64_t> decoding) {
  const auto count = std::min(decoding.size(), static_cast<std::size_t>(max_batch_sequences_));
  const auto first = std::upper_bound(decoding.begin(), decoding.end(), last_decoded_) - decoding.begin();
  std::vector<std::uint64_t> batch;
  batch.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    batch.push_back(decoding[(static_cast<std::size_t>(first) + i) % decoding.size()]);
  }
  if (!batch.empty()) last_decoded_ = batch.back();
  return batch;
}

std::vector<NativeRows> Scheduler::NextNative(absl::Span<const NativeRows> waiting) {
  std::vector<NativeRows> order(waiting.begin(), waiting.end());
  const auto shortest_first = [](const NativeRows& a, const NativeRows& b) { return a.rows < b.rows; };
  const auto begin = order.begin() + (oldest_first_ && !order.empty() ? 1 : 0);
  std::stable_sort(begin, order.end(), shortest_first);
  oldest_first_ = !oldest_first_;

  std::vector<NativeRows> turns;
  std::int64_t left = prefill_chunk_tokens_;
  for (const NativeRows& request : order) {
    if (left == 0) break;
    const std::int64_t rows = std::min(left, request.rows);
    turns.push_back({request.request, rows});
    left -= rows;
  }
  return turns;
}

}  // namespace scd
