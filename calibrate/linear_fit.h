// The closed forms of DESIGN.md section 1, from moments. z = (a - mean_a) encoder; b_hat = z decoder +
// mean_b. Latent columns are ordered by energy, so the first r of them are the fit of rank r. All in double.
#ifndef SCD_CALIBRATE_LINEAR_FIT_H_
#define SCD_CALIBRATE_LINEAR_FIT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "calibrate/matrix.h"
#include "calibrate/pair_moments.h"

namespace scd {

struct LinearFit {
  std::vector<double> mean_a;  // [dim_a]
  std::vector<double> mean_b;  // [dim_b]
  Matrix encoder;              // [dim_a, rank]
  Matrix decoder;              // [rank, dim_b]
};

// Reuse: the latent is shared. U: the leading eigenvectors of the Gram matrix of X = [A B]; Z = X U;
// encoder = (A^T A + lambda I)^-1 A^T Z; decoder = the B rows of U, transposed. lambda = ridge_lambda x mean
// diagonal of A^T A. Needs moments with bb. INVALID_ARGUMENT for a rank over dim_a + dim_b;
// FAILED_PRECONDITION where rows hold values that are not finite.
absl::StatusOr<LinearFit> FitJoint(const Moments& moments, std::int64_t rank, double ridge_lambda);

// Patch's linear part: reduced-rank ridge regression of B on A. P = (A^T A + lambda I)^-1 A^T B; U: the
// leading eigenvectors of P^T A^T A P; encoder = P U; decoder = U^T.
absl::StatusOr<LinearFit> FitReducedRank(const Moments& moments, std::int64_t rank, double ridge_lambda);

// The variances of the code's columns over the rows of `moments`.
std::vector<double> CodeVariances(const Moments& moments, const LinearFit& fit);

}  // namespace scd

#endif  // SCD_CALIBRATE_LINEAR_FIT_H_
