#include "calibrate/adamw.h"

#include <Eigen/Core>
#include <cmath>

namespace scd {
namespace {

constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEpsilon = 1e-8;
constexpr Eigen::Index kBlock =
    4096;  // elements whose moments, gradient and value stay in L1 and L2 together

using ArrayMap = Eigen::Map<Eigen::ArrayXf>;
using ConstArrayMap = Eigen::Map<const Eigen::ArrayXf>;

}  // namespace

AdamW::AdamW(std::int64_t num_parameters, double weight_decay)
    : weight_decay_(weight_decay),
      first_moment_(static_cast<std::size_t>(num_parameters)),
      second_moment_(static_cast<std::size_t>(num_parameters)) {}

void AdamW::Step(double learning_rate, absl::Span<const float> gradient, absl::Span<float> parameters) {
  ++step_;
  const double correction1 = 1.0 - std::pow(kBeta1, static_cast<double>(step_));
  const double correction2 = 1.0 - std::pow(kBeta2, static_cast<double>(step_));
  const float keep = static_cast<float>(1.0 - learning_rate * weight_decay_);
  const float rate = static_cast<float>(learning_rate / correction1);
  const float root_scale = static_cast<float>(1.0 / std::sqrt(correction2));
  const auto size = static_cast<Eigen::Index>(parameters.size());
  for (Eigen::Index begin = 0; begin < size; begin += kBlock) {
    const Eigen::Index n = std::min(kBlock, size - begin);
    const ConstArrayMap g(gradient.data() + begin, n);
    ArrayMap p(parameters.data() + begin, n);
    ArrayMap m(first_moment_.data() + begin, n);
    ArrayMap v(second_moment_.data() + begin, n);
    m = static_cast<float>(kBeta1) * m + static_cast<float>(1.0 - kBeta1) * g;
    v = static_cast<float>(kBeta2) * v + static_cast<float>(1.0 - kBeta2) * g.square();
    p = keep * p - rate * m / (v.sqrt() * root_scale + static_cast<float>(kEpsilon));
  }
}

}  // namespace scd
