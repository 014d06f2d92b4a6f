// Distances between next-token distributions, in double from log-softmax of f32 logits.
#ifndef SCD_CONSUMER_SCORE_MATH_H_
#define SCD_CONSUMER_SCORE_MATH_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace scd {

// log of the sum of exp(logit). INTERNAL where a logit is NaN or +infinity, or none is finite.
absl::StatusOr<double> LogSumExp(absl::Span<const float> logits);

struct Divergence {
  double kl = 0;  // KL(p || q), nats, at least 0
  double tv = 0;  // total variation, in [0, 1]
};

// p and q are the softmax of rows of equal length, given with their LogSumExp.
Divergence Compare(absl::Span<const float> p_logits, double p_log_total, absl::Span<const float> q_logits,
                   double q_log_total);

}  // namespace scd

#endif  // SCD_CONSUMER_SCORE_MATH_H_
