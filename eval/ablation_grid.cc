#include "eval/ablation_grid.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/transfer_modes.h"

namespace scd {
namespace {

ModeRow BaseRow(const AblateConfig& config, std::string_view mode, std::string name) {
  ModeRow row{.name = std::move(name), .group = "ablation", .spec = {}};
  row.spec.mode = mode;
  row.spec.native_head = config.native_head;
  row.spec.native_tail = config.native_tail;
  return row;
}

std::vector<ModeRow> RankRows(const AblateConfig& config) {
  std::vector<ModeRow> rows;
  for (const std::int64_t rank_k : config.rank_k) {
    for (const std::int64_t rank_v : config.rank_v) {
      ModeRow row = BaseRow(config, "reuse", absl::StrCat("rank K ", rank_k, ", V ", rank_v));
      row.spec.rank_k = rank_k;
      row.spec.rank_v = rank_v;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<ModeRow> RankHRows(const AblateConfig& config, const BundleManifest& manifest) {
  std::vector<ModeRow> rows;
  if (manifest.default_patch_layers.empty()) return rows;
  for (const std::int64_t rank_h : config.rank_h.empty() ? manifest.ranks_h : config.rank_h) {
    ModeRow row = BaseRow(config, "scd", absl::StrCat("rank H ", rank_h));
    row.spec.rank_h = rank_h;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<ModeRow> PatchRows(const AblateConfig& config, const BundleManifest& manifest) {
  const std::vector<std::int64_t> order = PatchOrder(manifest);
  const auto most = std::min(config.max_patch_layers, static_cast<std::int64_t>(order.size()));
  std::vector<ModeRow> rows;
  for (std::int64_t count = 0; count <= most; ++count) {
    ModeRow row = BaseRow(config, "scd", absl::StrCat(count, " Patch layers"));
    row.spec.patch_layers.emplace(order.begin(), order.begin() + count);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<ModeRow> DistortionRows(const AblateConfig& config, const BundleManifest& manifest) {
  std::vector<double> distortions = config.distortions;
  if (distortions.empty()) {
    for (const RatePoint& point : manifest.rate_points) distortions.push_back(point.distortion);
  }
  const std::string_view mode = ResolveMode(kAutoMode, manifest.fused.rank > 0, {});
  std::vector<ModeRow> rows;
  for (const double distortion : distortions) {
    ModeRow row = BaseRow(config, mode, absl::StrCat("distortion ", distortion));
    row.spec.codec = Codec::kEntropy;
    row.spec.distortion = distortion;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::vector<std::int64_t> PatchOrder(const BundleManifest& manifest) {
  std::vector<std::int64_t> order;
  for (const PatchChoiceStep& step : manifest.patch_choice) order.push_back(step.layer);
  for (const std::int64_t layer : manifest.candidate_layers) {
    if (std::find(order.begin(), order.end(), layer) == order.end()) order.push_back(layer);
  }
  return order;
}

std::vector<ModeRow> AblationRows(Ablation ablation, const AblateConfig& config,
                                  const BundleManifest& manifest) {
  switch (ablation) {
    case Ablation::kRanks:
      return RankRows(config);
    case Ablation::kRankH:
      return RankHRows(config, manifest);
    case Ablation::kPatchLayers:
      return PatchRows(config, manifest);
    case Ablation::kDistortion:
      return DistortionRows(config, manifest);
    case Ablation::kCalibrationPrefixes:
      break;
  }
  return {BaseRow(config, "scd", "scd")};
}

}  // namespace scd
