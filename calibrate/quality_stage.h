// What a finished bundle makes of held-out prefixes, as its manifest records it.
#ifndef SCD_CALIBRATE_QUALITY_STAGE_H_
#define SCD_CALIBRATE_QUALITY_STAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "calibrate/held_out_evaluator.h"
#include "calibrate/run_context.h"
#include "common/bundle/bundle.h"
#include "common/bundle/manifest.h"

namespace scd {

// Of Reuse alone, of the default plan with these Patch layers, and, where `fused`, of Fused layers with codes
// in bf16; each by the translators of `bundle`.
absl::StatusOr<HeldOutQuality> RunQualityStage(const RunContext& context, const Bundle& bundle,
                                               const std::vector<std::int64_t>& patch_layers, bool fused,
                                               HeldOutEvaluator& evaluator);

}  // namespace scd

#endif  // SCD_CALIBRATE_QUALITY_STAGE_H_
