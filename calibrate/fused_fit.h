// The fit of Fused translators for one group of layers (fused_linear.h), from the rows of a store.
#ifndef SCD_CALIBRATE_FUSED_FIT_H_
#define SCD_CALIBRATE_FUSED_FIT_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "calibrate/fused_linear.h"
#include "calibrate/host_math.h"
#include "calibrate/trace_store.h"
#include "common/config/layer_plan.h"
#include "common/model/transformer.h"

namespace scd {

struct FusedOptions {
  double ridge_lambda = 1e-4;
  std::int64_t rank = 0;
  std::int64_t group = 1;  // layers that share a code
  double distortion = 0;   // that coded_error is measured at; 0: of codes that are not rounded
};

struct LayerFused {
  std::vector<float> encoder;  // [rank, hidden], its share of the group's
  // Relative errors of held-out rows, |X_hat - X| / |X - mean| of X = [K / sd, V / sd].
  double plain_error = 0;  // of codes that are not rounded
  double coded_error = 0;  // of codes rounded at FusedOptions::distortion
};

struct FusedGroup {
  LayerRange layers;
  FusedLinear linear;
  std::vector<LayerFused> each;  // one for each layer
};

// The producer's attention inputs of these layers, side by side: [rows, layers x hidden], in `out`.
absl::StatusOr<ConstTensorView> ReadLayersHidden(const TraceStore& store, const TracePiece& piece,
                                                 const LayerRange& layers, std::vector<float>* out);

// on_progress(fraction) says how much of the group is done, in [0, 1]. CANCELLED when `stop` is set.
absl::StatusOr<FusedGroup> FitFused(HostMath& math, const TraceStore& store, const Transformer& consumer,
                                    const LayerRange& layers, const FusedOptions& options,
                                    std::stop_token stop, const std::function<void(double)>& on_progress);

// Fills each layer's share of the encoder.
void ShareEncoder(FusedGroup* group);

// Leaves out all but the first `rank` columns of the code.
void CutRank(std::int64_t rank, FusedGroup* group);

}  // namespace scd

#endif  // SCD_CALIBRATE_FUSED_FIT_H_
