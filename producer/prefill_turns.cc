#include "producer/prefill_turns.h"

#include <algorithm>

namespace scd {

std::size_t PrefillTurns::Next(absl::Span<const std::int64_t> rows_left) {
  const bool oldest = oldest_next_;
  // Whoever comes while one runs alone is next.
  oldest_next_ = rows_left.size() > 1 && !oldest_next_;
  if (oldest) return 0;
  return static_cast<std::size_t>(std::min_element(rows_left.begin(), rows_left.end()) - rows_left.begin());
}

}  // namespace scd
