#include "calibrate/mlp.h"

#include <Eigen/Core>
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using RowMajor = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Map = Eigen::Map<RowMajor>;
using ConstMap = Eigen::Map<const RowMajor, 0, Eigen::OuterStride<>>;
using RowVector = Eigen::Map<const Eigen::Array<float, 1, Eigen::Dynamic>>;

Map View(std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
  return Map(values.data(), rows, columns);
}

ConstMap View(ConstTensorView view) {
  return ConstMap(view.as<float>(), view.dim(0), view.dim(1), Eigen::OuterStride<>(view.stride(0)));
}

RowVector Row(ConstTensorView view) {
  return RowVector(view.as<float>(), view.dim(0));
}

template <typename View, typename Pointer>
MlpParts<View> Split(const MlpShape& s, Pointer parameters) {
  const Pointer b_in = parameters + s.width * s.in;
  const Pointer w_out = b_in + s.width;
  const Pointer b_out = w_out + s.out * s.width;
  return {View(parameters, DType::kF32, Shape{s.width, s.in}), View(b_in, DType::kF32, Shape{s.width}),
          View(w_out, DType::kF32, Shape{s.out, s.width}), View(b_out, DType::kF32, Shape{s.out})};
}

void SumColumns(const Map& rows, TensorView out) {
  Eigen::Map<Eigen::Array<float, 1, Eigen::Dynamic>>(out.as<float>(), out.dim(0)) = rows.colwise().sum();
}

}  // namespace

MlpParts<TensorView> SplitParameters(const MlpShape& shape, float* parameters) {
  return Split<TensorView>(shape, parameters);
}

MlpParts<ConstTensorView> SplitParameters(const MlpShape& shape, const float* parameters) {
  return Split<ConstTensorView>(shape, parameters);
}

Mlp::Mlp(const MlpShape& shape, std::uint64_t seed)
    : shape_(shape), parameters_(static_cast<std::size_t>(shape.num_parameters())) {
  std::mt19937_64 random(seed);
  const float bound = 1.0f / std::sqrt(static_cast<float>(shape.in));
  const std::int64_t first_layer = shape.width * shape.in + shape.width;
  for (std::int64_t i = 0; i < first_layer; ++i) {
    const float unit = static_cast<float>(random() >> 40) * 0x1p-24f;  // [0, 1), the same everywhere
    parameters_[static_cast<std::size_t>(i)] = bound * (2.0f * unit - 1.0f);
  }
}

MlpPass::MlpPass(const MlpShape& shape, std::int64_t max_rows)
    : shape_(shape),
      max_rows_(max_rows),
      sigmoid_(static_cast<std::size_t>(max_rows * shape.width)),
      activation_(sigmoid_.size()),
      backward_(sigmoid_.size()),
      error_(static_cast<std::size_t>(max_rows * shape.out)) {}

absl::Status MlpPass::Forward(HostMath& math, const Mlp& mlp, ConstTensorView x, ConstTensorView y) {
  const std::int64_t rows = x.dim(0);
  if (rows < 1 || rows > max_rows_ || y.dim(0) != rows || x.dim(1) != shape_.in || y.dim(1) != shape_.out) {
    return absl::InvalidArgumentError(absl::StrCat("aligner pass of at most ", max_rows_, " rows: got x ",
                                                   x.shape().ToString(), ", y ", y.shape().ToString()));
  }
  const MlpParts<ConstTensorView> p = SplitParameters(shape_, mlp.parameters().data());
  SCD_RETURN_IF_ERROR(
      math.Gemm(x, p.w_in, MatrixView(activation_.data(), rows, shape_.width), {.transpose_b = true}));
  Map hidden = View(activation_, rows, shape_.width);
  Map sigmoid = View(sigmoid_, rows, shape_.width);
  hidden.rowwise() += Row(p.b_in);
  sigmoid = 1.0f / (1.0f + (-hidden).exp());
  hidden *= sigmoid;

  SCD_RETURN_IF_ERROR(math.Gemm(MatrixView(activation_.data(), rows, shape_.width), p.w_out,
                                MatrixView(error_.data(), rows, shape_.out), {.transpose_b = true}));
  Map error = View(error_, rows, shape_.out);
  error.rowwise() += Row(p.b_out);
  error -= View(y);
  return absl::OkStatus();
}

absl::StatusOr<double> MlpPass::Loss(HostMath& math, const Mlp& mlp, ConstTensorView x, ConstTensorView y) {
  SCD_RETURN_IF_ERROR(Forward(math, mlp, x, y));
  const Map error = View(error_, x.dim(0), shape_.out);
  return error.cast<double>().square().mean();
}

absl::StatusOr<double> MlpPass::LossAndGradient(HostMath& math, const Mlp& mlp, ConstTensorView x,
                                                ConstTensorView y, absl::Span<float> gradient) {
  SCD_ASSIGN_OR_RETURN(const double loss, Loss(math, mlp, x, y));
  const std::int64_t rows = x.dim(0);
  const MlpParts<ConstTensorView> p = SplitParameters(shape_, mlp.parameters().data());
  const MlpParts<TensorView> g = SplitParameters(shape_, gradient.data());
  const TensorView error_view = MatrixView(error_.data(), rows, shape_.out);
  const TensorView activation_view = MatrixView(activation_.data(), rows, shape_.width);
  const TensorView backward_view = MatrixView(backward_.data(), rows, shape_.width);

  Map error = View(error_, rows, shape_.out);
  error *= 2.0f / static_cast<float>(rows * shape_.out);
  SCD_RETURN_IF_ERROR(math.Gemm(error_view, activation_view, g.w_out, {.transpose_a = true}));
  SumColumns(error, g.b_out);

  SCD_RETURN_IF_ERROR(math.Gemm(error_view, p.w_out, backward_view));
  const Map sigmoid = View(sigmoid_, rows, shape_.width);
  const Map activation = View(activation_, rows, shape_.width);
  Map backward = View(backward_, rows, shape_.width);
  backward *= sigmoid + activation * (1.0f - sigmoid);
  SCD_RETURN_IF_ERROR(math.Gemm(backward_view, x, g.w_in, {.transpose_a = true}));
  SumColumns(backward, g.b_in);
  return loss;
}

}  // namespace scd
