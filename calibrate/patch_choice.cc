#include "calibrate/patch_choice.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibrate/layer_choice.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

MeasureKl Measure(HeldOutEvaluator& evaluator, StateSource source, Progress& progress) {
  return [&evaluator, source, &progress](const std::vector<std::int64_t>& layers) -> absl::StatusOr<double> {
    SCD_ASSIGN_OR_RETURN(const HeldOutScore score, evaluator.ScoreWith(layers, source));
    progress.Add(1);
    return score.kl;
  };
}

std::string Joined(const std::vector<std::int64_t>& layers) {
  return absl::StrJoin(layers, " ");
}

std::int64_t Size(const std::vector<std::int64_t>& layers) {
  return static_cast<std::int64_t>(layers.size());
}

}  // namespace

bool NeedsSensitivity(const PatchConfig& config, std::int64_t num_layers) {
  if (config.candidates || (config.layers && config.layers->empty())) return false;
  if (!config.layers && config.count == 0) return false;
  return config.num_candidates != 0 && config.num_candidates < num_layers;
}

absl::StatusOr<std::vector<std::int64_t>> ChooseCandidates(const RunContext& context,
                                                           const PatchConfig& config, std::int64_t num_layers,
                                                           HeldOutEvaluator* evaluator) {
  if (config.candidates) return *config.candidates;
  if ((config.layers && config.layers->empty()) || (!config.layers && config.count == 0)) {
    return std::vector<std::int64_t>();
  }
  std::vector<std::int64_t> all(static_cast<std::size_t>(num_layers));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  if (!NeedsSensitivity(config, num_layers)) return all;

  Progress progress(context.log, context.progress, "sensitivity", "layers", num_layers);
  SCD_ASSIGN_OR_RETURN(std::vector<std::int64_t> candidates,
                       RankLayers(all, Measure(*evaluator, StateSource::kOracle, progress)));
  context.log.Info("layers from the most sensitive on: " + Joined(candidates));
  candidates.resize(static_cast<std::size_t>(config.num_candidates));
  for (const std::int64_t layer : config.layers.value_or(std::vector<std::int64_t>())) {
    if (std::find(candidates.begin(), candidates.end(), layer) == candidates.end())
      candidates.push_back(layer);
  }
  return candidates;
}

absl::StatusOr<PatchChoice> ChoosePatchLayers(const RunContext& context, const PatchConfig& config,
                                              const std::vector<std::int64_t>& candidates,
                                              HeldOutEvaluator& evaluator) {
  SCD_ASSIGN_OR_RETURN(const HeldOutScore reuse, evaluator.ScoreWith({}, StateSource::kReuse));
  const ChoiceCost cost{.reuse = config.reuse_cost, .per_layer = config.layer_cost};
  const bool given = config.layers.has_value();
  const std::int64_t evaluations = given ? Size(*config.layers) : 2 * Size(candidates);
  Progress progress(context.log, context.progress, "choice of Patch layers", "evaluations", evaluations);
  const MeasureKl measure = Measure(evaluator, StateSource::kPatch, progress);

  std::vector<std::int64_t> order;
  if (given) {
    order = *config.layers;
  } else {
    SCD_ASSIGN_OR_RETURN(order, RankLayers(candidates, measure));
  }
  PatchChoice choice;
  SCD_ASSIGN_OR_RETURN(choice.steps, GrowSets(order, reuse.kl, given, cost, measure));
  const std::int64_t count = given ? Size(order) : ChooseCount(choice.steps, config.count);
  for (std::size_t i = 0; i < choice.steps.size(); ++i) {
    const PatchChoiceStep& step = choice.steps[i];
    context.log.Info(absl::StrFormat("S_%d adds layer %d: KL %.5f, gain %.5f, gain over cost %.5f", i + 1,
                                     step.layer, step.kl, step.gain, step.gain_per_cost));
    if (static_cast<std::int64_t>(i) < count) choice.layers.push_back(step.layer);
  }
  return choice;
}

}  // namespace scd
