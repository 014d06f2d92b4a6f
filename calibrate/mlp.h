// The residual network of an aligner and the gradient of its loss:  y = silu(x W_in^T + b_in) W_out^T +
// b_out. All parameters lie in one array, so that the optimiser and copies are one loop.
#ifndef SCD_CALIBRATE_MLP_H_
#define SCD_CALIBRATE_MLP_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "calibrate/host_math.h"

namespace scd {

struct MlpShape {
  std::int64_t in = 0;
  std::int64_t width = 0;
  std::int64_t out = 0;

  std::int64_t num_parameters() const { return width * in + width + out * width + out; }
};

// Views into an array of num_parameters() floats: a network's own, or its gradient.
template <typename View>
struct MlpParts {
  View w_in;   // [width, in]
  View b_in;   // [width]
  View w_out;  // [out, width]
  View b_out;  // [out]
};
MlpParts<TensorView> SplitParameters(const MlpShape& shape, float* parameters);
MlpParts<ConstTensorView> SplitParameters(const MlpShape& shape, const float* parameters);

class Mlp {
 public:
  // The first layer uniform in +-1/sqrt(in), drawn from `seed`; the output layer zero: the network starts as
  // y = 0.
  Mlp(const MlpShape& shape, std::uint64_t seed);

  const MlpShape& shape() const { return shape_; }
  std::vector<float>& parameters() { return parameters_; }
  const std::vector<float>& parameters() const { return parameters_; }

 private:
  const MlpShape shape_;
  std::vector<float> parameters_;
};

// Activations of passes of at most max_rows rows.
class MlpPass {
 public:
  MlpPass(const MlpShape& shape, std::int64_t max_rows);

  // The mean over all elements of (network(x) - y)^2; x [rows, in], y [rows, out].
  absl::StatusOr<double> Loss(HostMath& math, const Mlp& mlp, ConstTensorView x, ConstTensorView y);

  // The same, and its gradient by every parameter (overwritten).
  absl::StatusOr<double> LossAndGradient(HostMath& math, const Mlp& mlp, ConstTensorView x, ConstTensorView y,
                                         absl::Span<float> gradient);

 private:
  // Leaves sigmoid_, activation_ and error_ = network(x) - y.
  absl::Status Forward(HostMath& math, const Mlp& mlp, ConstTensorView x, ConstTensorView y);

  const MlpShape shape_;
  const std::int64_t max_rows_;
  std::vector<float> sigmoid_;     // [rows, width], of the hidden layer before its activation
  std::vector<float> activation_;  // [rows, width]
  std::vector<float> backward_;    // [rows, width]
  std::vector<float> error_;       // [rows, out]
};

}  // namespace scd

#endif  // SCD_CALIBRATE_MLP_H_
