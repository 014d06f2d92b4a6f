#include "consumer/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace scd {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::size_t StopMatcher::FirstMatch() const {
  std::size_t best_begin = std::string::npos;
  std::size_t best_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t begin = held_.find(stop);
    if (begin == std::string::npos) continue;
    const std::size_t end = begin + stop.size();
    if (end < best_end || (end == best_end && begin < best_begin)) {
      best_begin = begin;
      best_end = end;
    }
  }
  return best_begin;
}

std::size_t StopMatcher::LongestOpenEnd() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, held_.size()); length > longest; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) longest = length;
    }
  }
  return longest;
}

StopMatcher::Piece StopMatcher::Add(std::string_view text) {
  held_.append(text);
  if (const std::size_t begin = FirstMatch(); begin != std::string::npos) {
    Piece piece{held_.substr(0, begin), true};
    held_.clear();
    return piece;
  }
  const std::size_t certain = held_.size() - LongestOpenEnd();
  Piece piece{held_.substr(0, certain), false};
  held_.erase(0, certain);
  return piece;
}

std::string StopMatcher::Finish() {
  return std::exchange(held_, std::string());
}

}  // namespace scd
