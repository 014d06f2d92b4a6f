// The fitted translators as the tensors of a bundle.
#ifndef SCD_CALIBRATE_BUNDLE_TENSORS_H_
#define SCD_CALIBRATE_BUNDLE_TENSORS_H_

#include <vector>

#include "calibrate/patch_stage.h"
#include "calibrate/reuse_stage.h"
#include "common/io/safetensors.h"

namespace scd {

// Views into `reuse` and `patch`, which outlive the result, under the names that bundles give them.
std::vector<NamedTensor> BundleTensorsOf(const std::vector<LayerReuse>& reuse,
                                         const std::vector<LayerPatch>& patch);

}  // namespace scd

#endif  // SCD_CALIBRATE_BUNDLE_TENSORS_H_
