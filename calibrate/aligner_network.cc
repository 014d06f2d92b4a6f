#include "calibrate/aligner_network.h"

#include <cmath>
#include <cstddef>

#include "kernels/status_macros.h"

namespace scd {

AlignerNetwork EmptyNetwork(const MlpShape& shape) {
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  AlignerNetwork network;
  network.in = shape.in;
  network.mlp_in.resize(size(shape.width * shape.in));
  network.mlp_in_bias.resize(size(shape.width));
  network.mlp_out.resize(size(shape.out * shape.width));
  network.mlp_out_bias.resize(size(shape.out));
  return network;
}

AlignerNetwork FoldScales(const TrainedAligner& trained, float gain, absl::Span<const float> spread) {
  const MlpShape& shape = trained.mlp.shape();
  const MlpParts<ConstTensorView> p = SplitParameters(shape, trained.mlp.parameters().data());
  const auto copy = [](ConstTensorView from, std::vector<float>& to) {
    to.assign(from.as<float>(), from.as<float>() + from.num_elements());
  };
  AlignerNetwork out;
  out.in = shape.in;
  out.epochs = trained.epochs;
  copy(p.w_in, out.mlp_in);
  copy(p.b_in, out.mlp_in_bias);
  copy(p.w_out, out.mlp_out);
  copy(p.b_out, out.mlp_out_bias);
  for (float& w : out.mlp_in) w /= gain;
  for (std::int64_t o = 0; o < shape.out; ++o) {
    const float scale = spread[static_cast<std::size_t>(o)];
    out.mlp_out_bias[static_cast<std::size_t>(o)] *= scale;
    float* row = out.mlp_out.data() + o * shape.width;
    for (std::int64_t i = 0; i < shape.width; ++i) row[i] *= scale;
  }
  return out;
}

absl::Status AddNetwork(HostMath& math, const AlignerNetwork& network, ConstTensorView x, TensorView y) {
  const std::int64_t rows = x.dim(0);
  const std::int64_t width = network.width();
  std::vector<float> hidden(static_cast<std::size_t>(rows * width));
  const TensorView hidden_view = MatrixView(hidden.data(), rows, width);
  SCD_RETURN_IF_ERROR(
      math.Gemm(x, MatrixView(network.mlp_in.data(), width, network.in), hidden_view, {.transpose_b = true}));
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = hidden_view.row<float>(r);
    for (std::int64_t i = 0; i < width; ++i) {
      const float value = row[i] + network.mlp_in_bias[static_cast<std::size_t>(i)];
      row[i] = value / (1.0f + std::exp(-value));
    }
  }
  SCD_RETURN_IF_ERROR(math.Gemm(hidden_view, MatrixView(network.mlp_out.data(), network.out(), width), y,
                                {.transpose_b = true, .beta = 1.0f}));
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = y.row<float>(r);
    for (std::int64_t i = 0; i < network.out(); ++i)
      row[i] += network.mlp_out_bias[static_cast<std::size_t>(i)];
  }
  return absl::OkStatus();
}

float RootMeanSquare(ConstTensorView rows) {
  double sum = 0;
  for (std::int64_t i = 0; i < rows.num_elements(); ++i) {
    const double value = rows.as<float>()[i];
    sum += value * value;
  }
  const double mean = rows.num_elements() > 0 ? sum / static_cast<double>(rows.num_elements()) : 0.0;
  return mean > 0 ? static_cast<float>(std::sqrt(mean)) : 1.0f;
}

void DivideBy(TensorView rows, float divisor) {
  for (std::int64_t i = 0; i < rows.num_elements(); ++i) rows.as<float>()[i] /= divisor;
}

}  // namespace scd
