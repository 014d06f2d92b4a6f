#include "eval/drift/drift_recursion.h"

#include <cmath>
#include <limits>

namespace scd {
namespace {

// Relative errors below this are rounding of f32 sums.
constexpr double kRounding = 1e-6;

double Ratio(double leaving, double entering) {
  return entering > 0 ? leaving / entering : std::numeric_limits<double>::quiet_NaN();
}

double OrZero(double coefficient) {
  return std::isnan(coefficient) ? 0.0 : coefficient;
}

}  // namespace

DriftEstimates EstimateDrift(const DriftSums& sums) {
  DriftEstimates estimates;
  for (std::size_t l = 0; l < sums.k.size(); ++l) {
    const double eps = std::hypot(sums.k[l].Relative(), sums.v[l].Relative());
    estimates.alpha.push_back(Ratio(sums.from_input[l].Relative(), sums.hidden[l].Relative()));
    estimates.beta.push_back(Ratio(sums.from_kv[l].Relative(), eps));
    estimates.eps.push_back(eps);
  }
  return estimates;
}

std::vector<double> PredictDrift(const DriftEstimates& estimates) {
  std::vector<double> errors = {0.0};
  for (std::size_t l = 0; l < estimates.alpha.size(); ++l) {
    errors.push_back(OrZero(estimates.alpha[l]) * errors[l] + OrZero(estimates.beta[l]) * estimates.eps[l]);
  }
  return errors;
}

std::vector<std::int64_t> ViolatedLayers(absl::Span<const double> measured,
                                         absl::Span<const double> predicted) {
  std::vector<std::int64_t> violated;
  for (std::size_t l = 0; l < measured.size(); ++l) {
    if (measured[l] > predicted[l] + kRounding) violated.push_back(static_cast<std::int64_t>(l));
  }
  return violated;
}

}  // namespace scd
