// RoPE of one token. Included once for each target.
#if defined(SCD_KERNELS_CPU_ROPE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCD_KERNELS_CPU_ROPE_INL_H_
#undef SCD_KERNELS_CPU_ROPE_INL_H_
#else
#define SCD_KERNELS_CPU_ROPE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {

// All heads of one token: heads * 2 * half elements, contiguous.
HWY_INLINE void RopeHeads(float* token, std::int64_t heads, std::int64_t half, const float* HWY_RESTRICT cos,
                          const float* HWY_RESTRICT sin) {
  namespace hn = hwy::HWY_NAMESPACE;
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

#endif  // SCD_KERNELS_CPU_ROPE_INL_H_
