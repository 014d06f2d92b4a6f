// The fit of one layer's Patch translators.
#ifndef SCD_CALIBRATE_PATCH_FIT_H_
#define SCD_CALIBRATE_PATCH_FIT_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "calibrate/host_math.h"
#include "calibrate/patch_stage.h"
#include "calibrate/trace_store.h"

namespace scd {

// `folder` takes prepared rows during the fit. on_progress(fraction) says how much of the layer is done, in
// [0, 1].
absl::StatusOr<LayerPatch> FitPatch(HostMath& math, const TraceStore& store, std::int64_t layer,
                                    const PatchOptions& options, const std::string& folder,
                                    std::stop_token stop, const std::function<void(double)>& on_progress);

}  // namespace scd

#endif  // SCD_CALIBRATE_PATCH_FIT_H_
