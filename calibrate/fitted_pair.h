// Everything that a calibration has fitted and measured so far: what its bundle is made of.
#ifndef SCD_CALIBRATE_FITTED_PAIR_H_
#define SCD_CALIBRATE_FITTED_PAIR_H_

#include <cstdint>
#include <vector>

#include "calibrate/entropy_fit.h"
#include "calibrate/fused_fit.h"
#include "calibrate/patch_choice.h"
#include "calibrate/patch_stage.h"
#include "calibrate/reuse_stage.h"
#include "common/bundle/manifest.h"
#include "common/config/layer_plan.h"

namespace scd {

// The entropy codec's tables for the code of one layer and kind.
struct CodeTables {
  std::int64_t layer = 0;
  CodeKind kind = CodeKind::kK;
  EntropyFit fit;
};

struct FittedRate {
  RatePoint point;
  std::vector<CodeTables> tables;  // of every code of every layer
};

struct FittedPair {
  std::vector<LayerReuse> reuse;  // one for each layer
  std::vector<std::int64_t> candidates;
  std::vector<LayerPatch> patch;  // one for each candidate
  std::vector<FusedGroup> fused;  // of all layers, or none
  std::vector<FittedRate> rates;  // ascending distortion
  std::int64_t default_rate = 0;
  SelectiveProfile selective;
  PatchChoice choice;
  HeldOutQuality quality;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_FITTED_PAIR_H_
