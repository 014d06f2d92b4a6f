#include "consumer/score_math.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace scd {

absl::StatusOr<double> LogSumExp(absl::Span<const float> logits) {
  float best = -std::numeric_limits<float>::infinity();
  bool has_nan = false;
  for (const float logit : logits) {
    has_nan |= std::isnan(logit);
    best = std::max(best, logit);
  }
  if (has_nan || !std::isfinite(best)) {
    return absl::InternalError("the logits hold NaN or infinity, or none is finite");
  }
  double total = 0;
  for (const float logit : logits) total += std::exp(double{logit} - best);
  return best + std::log(total);
}

Divergence Compare(absl::Span<const float> p_logits, double p_log_total, absl::Span<const float> q_logits,
                   double q_log_total) {
  Divergence result;
  for (std::size_t i = 0; i < p_logits.size(); ++i) {
    const double log_p = p_logits[i] - p_log_total;
    const double log_q = q_logits[i] - q_log_total;
    const double p = std::exp(log_p);
    // A token that p rules out adds nothing, also where its logarithms are infinite.
    if (p > 0) result.kl += p * (log_p - log_q);
    result.tv += std::abs(p - std::exp(log_q));
  }
  result.kl = std::max(result.kl, 0.0);
  result.tv = std::min(result.tv / 2, 1.0);
  return result;
}

}  // namespace scd
