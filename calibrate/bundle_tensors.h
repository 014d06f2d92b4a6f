// What was fitted as the tensors of a bundle.
#ifndef SCD_CALIBRATE_BUNDLE_TENSORS_H_
#define SCD_CALIBRATE_BUNDLE_TENSORS_H_

#include <vector>

#include "calibrate/fitted_pair.h"
#include "common/io/safetensors.h"

namespace scd {

// Views into `fitted`, which outlives the result, under the names that bundles give them.
std::vector<NamedTensor> BundleTensorsOf(const FittedPair& fitted);

}  // namespace scd

#endif  // SCD_CALIBRATE_BUNDLE_TENSORS_H_
