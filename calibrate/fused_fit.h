// The fit of Fused translators for one group of layers: the linear part (fused_linear.h), and where they are
// wanted a decoder fitted anew to codes as the consumer will see them, and a residual network for each layer,
// trained on such codes of this token and of those before it.
#ifndef SCD_CALIBRATE_FUSED_FIT_H_
#define SCD_CALIBRATE_FUSED_FIT_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "calibrate/aligner_network.h"
#include "calibrate/fused_linear.h"
#include "calibrate/host_math.h"
#include "calibrate/trace_store.h"
#include "common/config/layer_plan.h"
#include "common/model/transformer.h"

namespace scd {

struct FusedOptions {
  double ridge_lambda = 1e-4;
  std::int64_t rank = 0;
  std::int64_t group = 1;        // layers that share a code
  std::int64_t window = 1;       // tokens that the network reads
  std::int64_t native_head = 1;  // the first position that codes come for
  double distortion = 0;         // that networks are trained for; 0: codes that are not rounded
  bool refit_decoder = false;    // to codes that are rounded so
  AlignerTraining training;      // without width: no network
};

// Relative errors of held-out rows, |X_hat - X| / |X - mean| of X = [K / sd, V / sd].
struct FusedErrors {
  double linear = 0;  // without the network
  double full = 0;
};

struct LayerFused {
  std::vector<float> encoder;  // [rank, hidden], its share of the group's
  AlignerNetwork network;      // in: window x rank, this token's columns first; without width: none
  FusedErrors plain;           // of codes that are not rounded
  FusedErrors coded;           // of codes rounded at FusedOptions::distortion
};

struct FusedGroup {
  LayerRange layers;
  FusedLinear linear;
  std::vector<LayerFused> each;  // one for each layer
};

// The producer's attention inputs of these layers, side by side: [rows, layers x hidden], in `out`.
absl::StatusOr<ConstTensorView> ReadLayersHidden(const TraceStore& store, const TracePiece& piece,
                                                 const LayerRange& layers, std::vector<float>* out);

// Tokens before the one at `position` that the network may read: those of its granule that have codes.
std::int64_t ReadableBefore(std::int64_t position, std::int64_t native_head);

// Rows [begin, begin + x rows) of the network's input, divided by gain: x [rows, window x rank] from codes
// [n, rank]. Rows of one prefix follow each other in order of position; positions: [n].
void FillWindows(ConstTensorView codes, absl::Span<const std::int64_t> positions, std::int64_t native_head,
                 std::int64_t begin, float gain, TensorView x);

// `folder` takes prepared rows during the fit. on_progress(fraction) says how much of the group is done, in
// [0, 1]. CANCELLED when `stop` is set.
absl::StatusOr<FusedGroup> FitFused(HostMath& math, const TraceStore& store, const Transformer& consumer,
                                    const LayerRange& layers, const FusedOptions& options,
                                    const std::string& folder, std::stop_token stop,
                                    const std::function<void(double)>& on_progress);

// Fills each layer's share of the encoder.
void ShareEncoder(FusedGroup* group);

// Leaves out all but the first `rank` columns of the code.
void CutRank(std::int64_t rank, FusedGroup* group);

}  // namespace scd

#endif  // SCD_CALIBRATE_FUSED_FIT_H_
