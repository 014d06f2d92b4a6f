// The fit of one layer's Fused translator: one code for K and V together, made from the producer's attention
// input.
//
// Linear part: reduced-rank ridge regression of [K / sd_K, V / sd_V] of the consumer on H_A, where sd_K and
// sd_V are the root mean square of all numbers of K and of V around their means. Columns of the code are
// uncorrelated and ordered by energy, the decoder's are orthonormal in units of these spreads. Then the
// residual network, trained on codes as the consumer will see them, of this token and of those before it.
#ifndef SCD_CALIBRATE_FUSED_FIT_H_
#define SCD_CALIBRATE_FUSED_FIT_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "calibrate/aligner_network.h"
#include "calibrate/host_math.h"
#include "calibrate/pair_moments.h"
#include "calibrate/trace_store.h"
#include "calibrate/translator.h"
#include "common/model/transformer.h"

namespace scd {

struct FusedOptions {
  double ridge_lambda = 1e-4;
  std::int64_t rank = 0;
  std::int64_t window = 2;       // tokens that the network reads
  std::int64_t native_head = 1;  // the first position that codes come for
  double distortion = 0;         // that the network's training codes are rounded at; 0: they are not
  AlignerTraining training;
};

struct FusedLinear {
  AffineTranslator translator;
  double sd_k = 1;
  double sd_v = 1;
  std::vector<double> variances;  // [rank], of the code's columns over the rows of the fit

  // Of each output, [2 d_kv].
  std::vector<double> spread() const;
  std::vector<float> Steps(double distortion) const;
};

struct LayerFused {
  std::int64_t layer = 0;
  FusedLinear linear;
  AlignerNetwork network;  // in: window x rank, this token's columns first; its errors are of codes that are
                           // not rounded
  double coded_error = 0;  // with the network, of codes rounded at FusedOptions::distortion
};

// moments: of H_A, and K beside V with bb. INVALID_ARGUMENT for a rank over 2 d_kv.
absl::StatusOr<FusedLinear> FitFusedLinear(const Moments& moments, std::int64_t rank, double ridge_lambda);

// Tokens before the one at `position` that the network may read: those of its granule that have codes.
std::int64_t ReadableBefore(std::int64_t position, std::int64_t native_head);

// Rows [begin, begin + x rows) of the network's input, divided by gain: x [rows, window x rank] from codes
// [n, rank]. Rows of one prefix follow each other in order of position; positions: [n].
void FillWindows(ConstTensorView codes, absl::Span<const std::int64_t> positions, std::int64_t native_head,
                 std::int64_t begin, float gain, TensorView x);

// `folder` takes prepared rows during the fit. on_progress(fraction) says how much of the layer is done, in
// [0, 1]. CANCELLED when `stop` is set.
absl::StatusOr<LayerFused> FitFused(HostMath& math, const TraceStore& store, const Transformer& consumer,
                                    std::int64_t layer, const FusedOptions& options,
                                    const std::string& folder, std::stop_token stop,
                                    const std::function<void(double)>& on_progress);

}  // namespace scd

#endif  // SCD_CALIBRATE_FUSED_FIT_H_
