// Whether a transfer did what its plan says. A figure of a transfer that did something else would be a figure
// of that something.
#ifndef SCD_EVAL_TRANSFER_CHECK_H_
#define SCD_EVAL_TRANSFER_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/config/layer_plan.h"
#include "eval/figures.h"
#include "eval/mode_row.h"

namespace scd {

// Whether the producer may take codes from its store.
enum class CodeUse : std::uint8_t { kFresh, kStored };

// DATA_LOSS saying what differs: mode, tokens transferred and computed, and bytes. `plan` is the row's as the
// bundle resolves it; null where it is not known here, and bytes are not checked.
absl::Status CheckTransfer(const TransferSpec& asked, const LayerPlan* plan, CodeUse use,
                           const TransferFigures& got);

// DATA_LOSS unless there are `num_expected` positions with finite numbers: log-probabilities that are none
// above 0, KL and total variation that can be.
absl::Status CheckPositions(const ScoredText& scored, std::int64_t num_expected);

}  // namespace scd

#endif  // SCD_EVAL_TRANSFER_CHECK_H_
