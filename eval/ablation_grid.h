// The settings that the ablations go through.
#ifndef SCD_EVAL_ABLATION_GRID_H_
#define SCD_EVAL_ABLATION_GRID_H_

#include <cstdint>
#include <vector>

#include "common/bundle/manifest.h"
#include "eval/config.h"
#include "eval/mode_row.h"

namespace scd {

// Rows of one ablation of a bundle; of kCalibrationPrefixes the one row that each bundle is measured at.
//   kRanks        Reuse alone, every rank_k with every rank_v
//   kRankH        the bundle's own Patch layers at every rank_h
//   kPatchLayers  the first 0, 1, ... layers of the bundle's order of choice
//   kDistortion   entropy coded at the bundle's rate points: Fused layers, or where the bundle has none its
//                 own plan of Reuse and Patch
std::vector<ModeRow> AblationRows(Ablation ablation, const AblateConfig& config,
                                  const BundleManifest& manifest);

// All layers that the bundle can patch: those that it chose in the order of choice, the most efficient first,
// then the others, the most sensitive first.
std::vector<std::int64_t> PatchOrder(const BundleManifest& manifest);

}  // namespace scd

#endif  // SCD_EVAL_ABLATION_GRID_H_
