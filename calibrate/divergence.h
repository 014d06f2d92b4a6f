// How far one model output is from another, in nats.
#ifndef SCD_CALIBRATE_DIVERGENCE_H_
#define SCD_CALIBRATE_DIVERGENCE_H_

#include <cstdint>

#include "absl/types/span.h"

namespace scd {

// out = log softmax(logits); may be the same memory.
void LogSoftmax(absl::Span<const float> logits, absl::Span<float> out);

// KL(p || q) of two distributions given as logarithms.
double KlDivergence(absl::Span<const float> log_p, absl::Span<const float> log_q);

}  // namespace scd

#endif  // SCD_CALIBRATE_DIVERGENCE_H_
