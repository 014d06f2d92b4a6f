#include "calibrate/layer_choice.h"

#include <algorithm>
#include <utility>

#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::vector<std::int64_t>> RankLayers(const std::vector<std::int64_t>& layers,
                                                     const MeasureKl& measure) {
  std::vector<std::pair<double, std::int64_t>> measured;
  for (const std::int64_t layer : layers) {
    SCD_ASSIGN_OR_RETURN(const double kl, measure({layer}));
    measured.emplace_back(kl, layer);
  }
  std::stable_sort(measured.begin(), measured.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::int64_t> ranked;
  for (const auto& [kl, layer] : measured) ranked.push_back(layer);
  return ranked;
}

absl::StatusOr<std::vector<PatchChoiceStep>> GrowSets(const std::vector<std::int64_t>& order, double kl_reuse,
                                                      bool keep_all, const ChoiceCost& cost,
                                                      const MeasureKl& measure) {
  std::vector<PatchChoiceStep> steps;
  std::vector<std::int64_t> set;
  double kl_before = kl_reuse;
  for (const std::int64_t layer : order) {
    set.push_back(layer);
    SCD_ASSIGN_OR_RETURN(const double kl, measure(set));
    if (!keep_all && kl >= kl_before) {
      set.pop_back();
      continue;
    }
    kl_before = kl;
    const double k = static_cast<double>(set.size());
    const double gain = kl_reuse - kl;
    steps.push_back({.layer = layer,
                     .kl = kl,
                     .gain = gain,
                     .gain_per_cost = gain / (cost.reuse + cost.per_layer * k),
                     .gain_per_layer = gain / (cost.per_layer * k)});
  }
  return steps;
}

std::int64_t ChooseCount(const std::vector<PatchChoiceStep>& steps, std::optional<std::int64_t> count) {
  const auto size = static_cast<std::int64_t>(steps.size());
  if (count) return std::min(*count, size);
  std::int64_t best = 0;
  double best_value = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const double value = steps[static_cast<std::size_t>(i)].gain_per_cost;
    if (value > best_value) {
      best = i + 1;
      best_value = value;
    }
  }
  return best;
}

}  // namespace scd
