// The linear part of Fused translators: one code for K and V of a group of layers, made from the producer's
// attention inputs of all of them.
//
// Reduced-rank ridge regression of [K / sd, V / sd] of the consumer's layers, side by side, on H_A of the
// same layers, side by side. sd: of each layer's K and of its V, the root mean square of all numbers around
// their means. Columns of the code are uncorrelated and ordered by energy, the decoder's are orthonormal in
// units of these spreads.
#ifndef SCD_CALIBRATE_FUSED_LINEAR_H_
#define SCD_CALIBRATE_FUSED_LINEAR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "calibrate/pair_moments.h"
#include "calibrate/translator.h"

namespace scd {

struct FusedLinear {
  AffineTranslator translator;    // H_A of the layers -> code -> K beside V of one layer after the other
  std::vector<double> spreads;    // sd of K and of V of one layer after the other
  std::vector<double> variances;  // [rank], of the code's columns over the rows of the fit
  std::vector<double> weights;    // [rank], ColumnWeights of the decoder that belongs to the encoder

  // Of each output.
  std::vector<float> OutputSpread() const;
  std::vector<float> Steps(double distortion) const;
};

// moments: of the inputs and outputs of `num_layers` layers, with bb. At most as many columns as there are
// outputs can carry anything; those of a larger rank are 0.
absl::StatusOr<FusedLinear> FitFusedLinear(const Moments& moments, std::int64_t num_layers, std::int64_t rank,
                                           double ridge_lambda);

}  // namespace scd

#endif  // SCD_CALIBRATE_FUSED_LINEAR_H_
