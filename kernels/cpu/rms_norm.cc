#include <cmath>
#include <cstddef>

#include "kernels/cpu/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rms_norm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void RmsNormRow(const float* x, const float* HWY_RESTRICT weight, std::int64_t dim, float epsilon,
                float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= dim; i += 2 * lanes) {
    const auto a = hn::LoadU(d, x + i);
    const auto b = hn::LoadU(d, x + i + lanes);
    sum0 = hn::MulAdd(a, a, sum0);
    sum1 = hn::MulAdd(b, b, sum1);
  }
  float sum_of_squares = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < dim; ++i) sum_of_squares += x[i] * x[i];
  const float factor = 1.0f / std::sqrt(sum_of_squares / static_cast<float>(dim) + epsilon);
  const auto factors = hn::Set(d, factor);
  for (i = 0; i + lanes <= dim; i += lanes) {
    hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + i), factors), hn::LoadU(d, weight + i)), d, out + i);
  }
  for (; i < dim; ++i) out[i] = x[i] * factor * weight[i];
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scd::cpu {

HWY_EXPORT(RmsNormRow);

void RmsNormRows(const ConstTensorView& x, const float* weight, float epsilon, const TensorView& out,
                 Range rows) {
  const auto row_function = HWY_DYNAMIC_DISPATCH(RmsNormRow);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    row_function(x.row<float>(r), weight, x.dim(1), epsilon, out.row<float>(r));
  }
}

}  // namespace scd::cpu
#endif
