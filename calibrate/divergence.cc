#include "calibrate/divergence.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

namespace scd {
namespace {

using ConstArrayMap = Eigen::Map<const Eigen::ArrayXf>;
constexpr Eigen::Index kBlock = 1024;  // summed in f32, blocks in double

// The sum of term(begin, count) over blocks of [0, size).
template <typename Term>
double BlockSum(Eigen::Index size, Term term) {
  double sum = 0;
  for (Eigen::Index begin = 0; begin < size; begin += kBlock) {
    sum += static_cast<double>(term(begin, std::min(kBlock, size - begin)));
  }
  return sum;
}

}  // namespace

void LogSoftmax(absl::Span<const float> logits, absl::Span<float> out) {
  const ConstArrayMap in(logits.data(), static_cast<Eigen::Index>(logits.size()));
  const float largest = in.maxCoeff();
  const double sum = BlockSum(in.size(), [&](Eigen::Index begin, Eigen::Index count) {
    return (in.segment(begin, count) - largest).exp().sum();
  });
  const float shift = largest + static_cast<float>(std::log(sum));
  Eigen::Map<Eigen::ArrayXf>(out.data(), in.size()) = in - shift;
}

double KlDivergence(absl::Span<const float> log_p, absl::Span<const float> log_q) {
  const auto size = static_cast<Eigen::Index>(log_p.size());
  const ConstArrayMap p(log_p.data(), size);
  const ConstArrayMap q(log_q.data(), size);
  return BlockSum(size, [&](Eigen::Index begin, Eigen::Index count) {
    return (p.segment(begin, count).exp() * (p.segment(begin, count) - q.segment(begin, count))).sum();
  });
}

}  // namespace scd
