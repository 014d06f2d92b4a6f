// What the drift measurement adds up: squared errors beside squared norms, so that sums over prefixes give
// relative Frobenius errors of all their rows together.
#ifndef SCD_EVAL_DRIFT_DRIFT_SUMS_H_
#define SCD_EVAL_DRIFT_DRIFT_SUMS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace scd {

struct ErrorSum {
  double error = 0;  // sum of (actual - native)^2
  double norm = 0;   // sum of native^2

  // Adds the elements of two matrices of one size.
  void Add(absl::Span<const float> actual, absl::Span<const float> native);
  ErrorSum& operator+=(const ErrorSum& other);
  // |actual - native| / |native|; 0 where nothing was added.
  double Relative() const;
};

// Of one plan, over any number of prefixes. "Decode positions" are a prompt's last token and the
// teacher-forced tokens after it; "transferred positions" those that codes were sent for.
struct DriftSums {
  DriftSums() = default;
  explicit DriftSums(std::int64_t num_layers);
  DriftSums& operator+=(const DriftSums& other);

  std::vector<ErrorSum> k;  // [layers] rebuilt against native, transferred positions, before RoPE
  std::vector<ErrorSum> v;  // [layers] the same of V
  std::vector<ErrorSum>
      hidden;  // [layers + 1] residual stream entering layer l and leaving the last, decode positions
  // [layers] what leaves layer l, decode positions, when it runs alone: with the erroneous input of the
  // rebuilt pass over the native KV, and with the native input over the rebuilt KV.
  std::vector<ErrorSum> from_input;
  std::vector<ErrorSum> from_kv;
};

}  // namespace scd

#endif  // SCD_EVAL_DRIFT_DRIFT_SUMS_H_
