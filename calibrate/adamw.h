// AdamW with decoupled weight decay (Loshchilov and Hutter 2019), betas 0.9 and 0.999, epsilon 1e-8.
#ifndef SCD_CALIBRATE_ADAMW_H_
#define SCD_CALIBRATE_ADAMW_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace scd {

class AdamW {
 public:
  AdamW(std::int64_t num_parameters, double weight_decay);

  // One step; both spans have num_parameters elements.
  void Step(double learning_rate, absl::Span<const float> gradient, absl::Span<float> parameters);

 private:
  const double weight_decay_;
  std::int64_t step_ = 0;
  std::vector<float> first_moment_;
  std::vector<float> second_moment_;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_ADAMW_H_
