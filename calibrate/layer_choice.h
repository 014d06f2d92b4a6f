// The choice of Patch layers from measured KL (DESIGN.md section 1): pure decisions, the measuring is the
// caller's.
#ifndef SCD_CALIBRATE_LAYER_CHOICE_H_
#define SCD_CALIBRATE_LAYER_CHOICE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bundle/manifest.h"

namespace scd {

// Held-out KL(oracle || SCD) with these layers patched (or made the oracle's own, for sensitivity), nats.
using MeasureKl = std::function<absl::StatusOr<double>(const std::vector<std::int64_t>& layers)>;

// The layers, those first that alone leave the least KL; layers that leave the same stay in their order.
absl::StatusOr<std::vector<std::int64_t>> RankLayers(const std::vector<std::int64_t>& layers,
                                                     const MeasureKl& measure);

struct ChoiceCost {
  double reuse = 1.0;       // c0, of Reuse alone
  double per_layer = 0.04;  // c, of one Patch layer
};

// The sets S_1, S_2, ... that grow along `order`, with their curves. Without keep_all a layer that does not
// lower the KL of the set before it is left out.
absl::StatusOr<std::vector<PatchChoiceStep>> GrowSets(const std::vector<std::int64_t>& order, double kl_reuse,
                                                      bool keep_all, const ChoiceCost& cost,
                                                      const MeasureKl& measure);

// How many of the steps make the plan: `count` of them or all there are; without a count where gain_per_cost
// is largest (0 where no step gains anything).
std::int64_t ChooseCount(const std::vector<PatchChoiceStep>& steps, std::optional<std::int64_t> count);

}  // namespace scd

#endif  // SCD_CALIBRATE_LAYER_CHOICE_H_
