// The selective profile: how much of raw state's divergence goes away when the consumer recomputes one group
// of layers, measured on held-out prefixes for groups of several sizes and places (DroidSpeak, arXiv
// 2411.02820), and the group that is recomputed by default.
#ifndef SCD_CALIBRATE_SELECTIVE_STAGE_H_
#define SCD_CALIBRATE_SELECTIVE_STAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "calibrate/config.h"
#include "calibrate/held_out_evaluator.h"
#include "calibrate/run_context.h"
#include "common/bundle/manifest.h"
#include "common/config/layer_plan.h"
#include "common/model/transformer.h"

namespace scd {

// The groups that are measured: each of config.sizes (about 1/8, 1/4, 3/8, 1/2 and 2/3 of the layers where it
// names none) slid over the layers by half its size, the last place being the end; and at the end also groups
// of the sizes half way between. With the default sizes that is 36 groups of 30 layers, and about as many of
// any other number. A default group that the operator names is among them.
std::vector<LayerRange> SelectiveGroups(const SelectiveConfig& config, std::int64_t num_layers);

// Of the groups that lower `kl_raw` by at least `share` of what the best one does, the smallest; of equals
// the one that leaves less. Where none lowers it: the one that leaves least. `groups` is not empty.
LayerRange ChooseSelectiveGroup(absl::Span<const SelectiveGroup> groups, double kl_raw, double share);

// Runs `producer` on the evaluator's prefixes, then measures every group.
absl::StatusOr<SelectiveProfile> RunSelectiveStage(const RunContext& context, const SelectiveConfig& config,
                                                   const Transformer& producer, HeldOutEvaluator& evaluator);

}  // namespace scd

#endif  // SCD_CALIBRATE_SELECTIVE_STAGE_H_
