#include "calibrate/selective_stage.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/model_config.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

std::vector<std::int64_t> DefaultSizes(std::int64_t num_layers) {
  std::vector<std::int64_t> sizes;
  for (const double part : {1.0 / 8, 1.0 / 4, 3.0 / 8, 1.0 / 2, 2.0 / 3}) {
    const auto size = static_cast<std::int64_t>(std::lround(part * static_cast<double>(num_layers)));
    sizes.push_back(std::max<std::int64_t>(1, size));
  }
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// Bytes of the transfer over those of raw state.
double BytesFraction(const LayerRange& group, const ModelConfig& model) {
  const auto layer = static_cast<double>(2 * model.d_kv());
  const double sent =
      layer * static_cast<double>(model.num_layers - group.size()) + static_cast<double>(model.hidden_size);
  return sent / (layer * static_cast<double>(model.num_layers));
}

std::string Describe(const SelectiveGroup& group) {
  return absl::StrFormat("layers %d to %d (%.0f %% of raw state's bytes): KL %.5f", group.layers.first,
                         group.layers.last, 100 * group.bytes_fraction, group.kl);
}

void LogBestOfEachSize(Log& log, const std::vector<SelectiveGroup>& groups) {
  std::vector<SelectiveGroup> sorted = groups;
  std::stable_sort(sorted.begin(), sorted.end(), [](const SelectiveGroup& a, const SelectiveGroup& b) {
    return std::make_tuple(a.layers.size(), a.kl) < std::make_tuple(b.layers.size(), b.kl);
  });
  std::int64_t size = 0;
  for (const SelectiveGroup& group : sorted) {
    if (group.layers.size() != size) log.Info(absl::StrCat("selective: ", Describe(group)));
    size = group.layers.size();
  }
}

}  // namespace

std::vector<LayerRange> SelectiveGroups(const SelectiveConfig& config, std::int64_t num_layers) {
  const std::vector<std::int64_t> sizes = config.sizes ? *config.sizes : DefaultSizes(num_layers);
  std::vector<LayerRange> groups;
  std::set<std::pair<std::int64_t, std::int64_t>> known;
  const auto add = [&](std::int64_t first, std::int64_t size) {
    if (known.emplace(first, size).second) groups.push_back({.first = first, .last = first + size - 1});
  };
  for (const std::int64_t size : sizes) {
    const std::int64_t stride = std::max<std::int64_t>(1, size / 2);
    for (std::int64_t first = 0; first + size < num_layers; first += stride) add(first, size);
    add(num_layers - size, size);
  }
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const std::int64_t between = (sizes[i - 1] + sizes[i]) / 2;
    if (between > sizes[i - 1]) add(num_layers - between, between);
  }
  if (config.default_group) add(config.default_group->first, config.default_group->size());
  return groups;
}

LayerRange ChooseSelectiveGroup(absl::Span<const SelectiveGroup> groups, double kl_raw, double share) {
  const auto least = std::min_element(groups.begin(), groups.end(),
                                      [](const auto& a, const auto& b) { return a.kl < b.kl; });
  if (least->kl >= kl_raw) return least->layers;
  const double enough = kl_raw - share * (kl_raw - least->kl);
  const SelectiveGroup* chosen = &*least;
  for (const SelectiveGroup& group : groups) {
    if (group.kl <= enough &&
        std::make_tuple(group.layers.size(), group.kl) < std::make_tuple(chosen->layers.size(), chosen->kl)) {
      chosen = &group;
    }
  }
  return chosen->layers;
}

absl::StatusOr<SelectiveProfile> RunSelectiveStage(const RunContext& context, const SelectiveConfig& config,
                                                   const Transformer& producer, HeldOutEvaluator& evaluator) {
  const ModelConfig& model = producer.config();
  const std::vector<LayerRange> ranges = SelectiveGroups(config, model.num_layers);
  Progress progress(context.log, context.progress, "selective profile", "groups",
                    static_cast<std::int64_t>(ranges.size()));
  std::set<std::int64_t> firsts;
  for (const LayerRange& range : ranges) firsts.insert(range.first);
  SCD_RETURN_IF_ERROR(
      evaluator.KeepResiduals(producer, std::vector<std::int64_t>(firsts.begin(), firsts.end())));

  SelectiveProfile profile;
  SCD_ASSIGN_OR_RETURN(const HeldOutScore raw, evaluator.ScoreSelective(std::nullopt));
  profile.kl_raw = raw.kl;
  for (const LayerRange& range : ranges) {
    SCD_ASSIGN_OR_RETURN(const HeldOutScore score, evaluator.ScoreSelective(range));
    profile.groups.push_back(
        {.layers = range, .kl = score.kl, .bytes_fraction = BytesFraction(range, model)});
    progress.Add(1);
  }
  context.log.Info(absl::StrFormat("selective: raw state leaves KL %.5f", raw.kl));
  LogBestOfEachSize(context.log, profile.groups);
  profile.default_group = config.default_group ? *config.default_group
                                               : ChooseSelectiveGroup(profile.groups, raw.kl, config.share);
  for (const SelectiveGroup& group : profile.groups) {
    if (group.layers == *profile.default_group) {
      context.log.Info(absl::StrCat("selective: by default ", Describe(group)));
    }
  }
  return profile;
}

}  // namespace scd
