// The residual network of a Patch translator as bundles hold it, and what its fit does with it.
#ifndef SCD_CALIBRATE_ALIGNER_NETWORK_H_
#define SCD_CALIBRATE_ALIGNER_NETWORK_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "calibrate/aligner_trainer.h"
#include "calibrate/host_math.h"

namespace scd {

// Added to the linear map's output, in its units.
struct AlignerNetwork {
  std::int64_t in = 0;
  std::vector<float> mlp_in;        // [width, in]
  std::vector<float> mlp_in_bias;   // [width]
  std::vector<float> mlp_out;       // [out, width]
  std::vector<float> mlp_out_bias;  // [out]
  double linear_error = 0;          // relative, of held-out rows, without the network
  double error = 0;                 // with it
  std::int64_t epochs = 0;

  std::int64_t width() const { return static_cast<std::int64_t>(mlp_in_bias.size()); }
  std::int64_t out() const { return static_cast<std::int64_t>(mlp_out_bias.size()); }
};

// Zeros, with room for a network of this shape.
AlignerNetwork EmptyNetwork(const MlpShape& shape);

// The network that was trained on x = input / gain and y = residual / spread [out].
AlignerNetwork FoldScales(const TrainedAligner& trained, float gain, absl::Span<const float> spread);

// y += network(x); x [rows, in], y [rows, out].
absl::Status AddNetwork(HostMath& math, const AlignerNetwork& network, ConstTensorView x, TensorView y);

// The root mean square of all values: of codes, which are centred, their standard deviation. 1 where it is 0.
float RootMeanSquare(ConstTensorView rows);
void DivideBy(TensorView rows, float divisor);

}  // namespace scd

#endif  // SCD_CALIBRATE_ALIGNER_NETWORK_H_
