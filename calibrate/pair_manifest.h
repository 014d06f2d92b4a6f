// The manifest of a bundle of what was fitted.
#ifndef SCD_CALIBRATE_PAIR_MANIFEST_H_
#define SCD_CALIBRATE_PAIR_MANIFEST_H_

#include "calibrate/config.h"
#include "calibrate/corpus.h"
#include "calibrate/fitted_pair.h"
#include "calibrate/model_pair.h"
#include "common/bundle/manifest.h"

namespace scd {

// config: resolved for the models.
BundleManifest MakeManifest(const CalibrateConfig& config, const ModelPair& pair, const Corpus& corpus,
                            const FittedPair& fitted);

}  // namespace scd

#endif  // SCD_CALIBRATE_PAIR_MANIFEST_H_
