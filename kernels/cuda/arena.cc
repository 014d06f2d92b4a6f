#include "kernels/cuda/arena.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace scd::cuda {

Arena::Arena(std::size_t bytes) {
  const std::size_t whole = bytes / kAlignment * kAlignment;
  if (whole > 0) AddGap(0, whole);
}

std::optional<std::size_t> Arena::Take(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() - kAlignment) return std::nullopt;
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const auto found = by_size_.lower_bound({size, 0});
  if (found == by_size_.end()) return std::nullopt;
  const auto [gap_size, begin] = *found;
  RemoveGap(gaps_.find(begin));
  if (gap_size > size) AddGap(begin + size, gap_size - size);
  pieces_[begin] = size;
  return begin;
}

void Arena::Give(std::size_t offset) {
  const auto piece = pieces_.find(offset);
  if (piece == pieces_.end()) return;
  std::size_t begin = offset;
  std::size_t size = piece->second;
  pieces_.erase(piece);
  auto after = gaps_.lower_bound(begin);
  if (after != gaps_.end() && after->first == begin + size) {
    size += after->second;
    const auto joined = after++;
    RemoveGap(joined);
  }
  if (after != gaps_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      begin = before->first;
      size += before->second;
      RemoveGap(before);
    }
  }
  AddGap(begin, size);
}

void Arena::AddGap(std::size_t begin, std::size_t size) {
  gaps_[begin] = size;
  by_size_.insert({size, begin});
  free_bytes_ += size;
}

void Arena::RemoveGap(std::map<std::size_t, std::size_t>::iterator gap) {
  by_size_.erase({gap->second, gap->first});
  free_bytes_ -= gap->second;
  gaps_.erase(gap);
}

}  // namespace scd::cuda
