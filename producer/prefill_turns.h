// Whose chunk the prefill engine runs next.
//
// Every second turn belongs to the prefill with the fewest rows left, so that a short prompt waits for one
// chunk of a long one and not for all of it; the turns between belong to the oldest, so that none is
// overtaken for ever. Not thread-safe: the engine's thread owns it.
#ifndef SCD_PRODUCER_PREFILL_TURNS_H_
#define SCD_PRODUCER_PREFILL_TURNS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace scd {

class PrefillTurns {
 public:
  // The index of the one that runs, of those that can: rows left of each, the oldest first. Not empty. Of
  // equals the oldest.
  std::size_t Next(absl::Span<const std::int64_t> rows_left);

 private:
  bool oldest_next_ = true;
};

}  // namespace scd

#endif  // SCD_PRODUCER_PREFILL_TURNS_H_
