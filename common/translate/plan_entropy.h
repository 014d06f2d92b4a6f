// The entropy coders that a plan needs, from the tables of its bundle.
#ifndef SCD_COMMON_TRANSLATE_PLAN_ENTROPY_H_
#define SCD_COMMON_TRANSLATE_PLAN_ENTROPY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/bundle/bundle.h"
#include "common/config/layer_plan.h"
#include "common/wire/entropy_coder.h"

namespace scd {

// Columns behind the last one that is sent are no part of a payload and rebuilt as 0.
enum class UnsentColumns : std::uint8_t { kKeep, kCutOff };

// Of one code that the plan sends; null where the plan's codec has no tables. Cut off, the coder's rank (at
// least 1) ends with the last column that is sent, and maps need no rows or columns behind it; payloads are
// the same. The bundle may go away afterwards.
absl::StatusOr<std::unique_ptr<EntropyCoder>> EntropyCoderFor(const Bundle& bundle, const LayerPlan& plan,
                                                              std::int64_t layer, const SentKind& sent,
                                                              UnsentColumns unsent);

}  // namespace scd

#endif  // SCD_COMMON_TRANSLATE_PLAN_ENTROPY_H_
