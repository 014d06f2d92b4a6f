#include <cstddef>

#include "kernels/cpu/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// All heads of one token: heads * 2 * half elements, contiguous.
void RopeToken(float* token, std::int64_t heads, std::int64_t half, const float* HWY_RESTRICT cos,
               const float* HWY_RESTRICT sin) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t h = 0; h < heads; ++h) {
    float* HWY_RESTRICT low = token + h * 2 * half;
    float* HWY_RESTRICT high = low + half;
    std::int64_t i = 0;
    for (; i + lanes <= half; i += lanes) {
      const auto a = hn::LoadU(d, low + i);
      const auto b = hn::LoadU(d, high + i);
      const auto c = hn::LoadU(d, cos + i);
      const auto s = hn::LoadU(d, sin + i);
      hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, low + i);
      hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, high + i);
    }
    for (; i < half; ++i) {
      const float a = low[i];
      const float b = high[i];
      low[i] = a * cos[i] - b * sin[i];
      high[i] = b * cos[i] + a * sin[i];
    }
  }
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scd::cpu {

HWY_EXPORT(RopeToken);

void RopeTokens(const TensorView& x, const std::int32_t* positions, const RopeTable& table, Range tokens) {
  const auto token_function = HWY_DYNAMIC_DISPATCH(RopeToken);
  for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
    token_function(x.row<float>(t), x.dim(1), x.dim(2) / 2, table.cos.row<float>(positions[t]),
                   table.sin.row<float>(positions[t]));
  }
}

}  // namespace scd::cpu
#endif
