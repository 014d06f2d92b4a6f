// Fits the Patch translators of the candidate layers: the reduced-rank linear map, then for each rank the
// aligner's network on what the map leaves. Layers are fitted side by side; each that is ready is kept in the
// work folder.
#ifndef SCD_CALIBRATE_PATCH_STAGE_H_
#define SCD_CALIBRATE_PATCH_STAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "calibrate/aligner_network.h"
#include "calibrate/aligner_trainer.h"
#include "calibrate/parallel.h"
#include "calibrate/run_context.h"
#include "calibrate/trace_store.h"
#include "calibrate/translator.h"
#include "common/io/digest.h"

namespace scd {

struct PatchOptions {
  double ridge_lambda = 1e-4;
  std::vector<std::int64_t> ranks;  // ascending
  AlignerTraining training;
};

struct LayerPatch {
  std::int64_t layer = 0;
  AffineTranslator linear;            // of the largest rank
  std::vector<AlignerNetwork> ranks;  // one for each of PatchOptions::ranks, each of so many inputs
};

// One for each of `layers`, in their order. `inputs`: digest of everything that the rows in the store depend
// on.
absl::StatusOr<std::vector<LayerPatch>> RunPatchStage(const RunContext& context, const TraceStore& store,
                                                      absl::Span<const std::int64_t> layers,
                                                      const PatchOptions& options, const Digest& inputs,
                                                      int num_threads);

}  // namespace scd

#endif  // SCD_CALIBRATE_PATCH_STAGE_H_
