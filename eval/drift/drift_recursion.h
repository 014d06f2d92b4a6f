// The recursion of the paper's Lemma 5.1 with estimated coefficients: e_{l+1} <= alpha_l e_l + beta_l eps_l,
// e_0 = 0.
//
// All errors are relative. e_l: decode-time error of the residual stream entering layer l. eps_l: error of
// the layer's K and V at transferred positions, whether Reuse or Patch made them. The lemma needs Lipschitz
// constants; what is estimated here are ratios along the errors that were observed.
#ifndef SCD_EVAL_DRIFT_DRIFT_RECURSION_H_
#define SCD_EVAL_DRIFT_DRIFT_RECURSION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "eval/drift/drift_sums.h"

namespace scd {

struct DriftEstimates {
  std::vector<double> alpha;  // [layers] what leaves / what enters, the KV native; NaN where nothing enters
  std::vector<double> beta;   // [layers] what leaves / eps, the input native; NaN where eps is 0
  std::vector<double> eps;    // [layers] sqrt(error of K^2 + error of V^2)
};
DriftEstimates EstimateDrift(const DriftSums& sums);

// [layers + 1] e_0 ... e_L. A coefficient that could not be estimated counts as 0: what it multiplies was 0.
std::vector<double> PredictDrift(const DriftEstimates& estimates);

// The l whose measured error exceeds the prediction; both [layers + 1]. Differences within float rounding do
// not count.
std::vector<std::int64_t> ViolatedLayers(absl::Span<const double> measured,
                                         absl::Span<const double> predicted);

}  // namespace scd

#endif  // SCD_EVAL_DRIFT_DRIFT_RECURSION_H_
