// Chooses candidate and Patch layers by measuring held-out prefixes with the code that serves.
#ifndef SCD_CALIBRATE_PATCH_CHOICE_H_
#define SCD_CALIBRATE_PATCH_CHOICE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "calibrate/config.h"
#include "calibrate/held_out_evaluator.h"
#include "calibrate/run_context.h"
#include "common/bundle/manifest.h"

namespace scd {

// Layers that will have a Patch translator, the most sensitive first. `evaluator` uses a bundle of the Reuse
// fits; it is asked only where the configuration leaves the choice open (and may be null elsewhere).
absl::StatusOr<std::vector<std::int64_t>> ChooseCandidates(const RunContext& context,
                                                           const PatchConfig& config, std::int64_t num_layers,
                                                           HeldOutEvaluator* evaluator);
// Whether ChooseCandidates needs an evaluator.
bool NeedsSensitivity(const PatchConfig& config, std::int64_t num_layers);

struct PatchChoice {
  std::vector<PatchChoiceStep> steps;
  std::vector<std::int64_t> layers;  // the default plan's
};

// `evaluator` uses a bundle with every candidate's translator.
absl::StatusOr<PatchChoice> ChoosePatchLayers(const RunContext& context, const PatchConfig& config,
                                              const std::vector<std::int64_t>& candidates,
                                              HeldOutEvaluator& evaluator);

}  // namespace scd

#endif  // SCD_CALIBRATE_PATCH_CHOICE_H_
