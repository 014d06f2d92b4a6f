// Fits the Fused translators of every group of layers, side by side; each that is ready is kept in the work
// folder.
#ifndef SCD_CALIBRATE_FUSED_STAGE_H_
#define SCD_CALIBRATE_FUSED_STAGE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "calibrate/fused_fit.h"
#include "calibrate/run_context.h"
#include "calibrate/trace_store.h"
#include "common/io/digest.h"
#include "common/model/transformer.h"

namespace scd {

// In the order of the layers. `inputs`: digest of everything that the rows in the store depend on.
absl::StatusOr<std::vector<FusedGroup>> RunFusedStage(const RunContext& context, const TraceStore& store,
                                                      const Transformer& consumer,
                                                      const FusedOptions& options, const Digest& inputs,
                                                      int num_threads);

// Leaves out the columns that no group sends at this distortion.
void CutUnsent(double distortion, std::vector<FusedGroup>* groups);

}  // namespace scd

#endif  // SCD_CALIBRATE_FUSED_STAGE_H_
