// Dot products of a few vectors with a few others at once. Included once for each target.
#if defined(SCD_KERNELS_CPU_DOT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCD_KERNELS_CPU_DOT_TILE_INL_H_
#undef SCD_KERNELS_CPU_DOT_TILE_INL_H_
#else
#define SCD_KERNELS_CPU_DOT_TILE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {

using DotFloats = hwy::HWY_NAMESPACE::ScalableTag<float>;
using DotVec = hwy::HWY_NAMESPACE::Vec<DotFloats>;

HWY_INLINE DotVec LoadWide(const float* w) {
  return hwy::HWY_NAMESPACE::LoadU(DotFloats(), w);
}

HWY_INLINE DotVec LoadWide(const std::uint16_t* w) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<std::uint16_t, DotFloats> halves;
  const hn::RebindToUnsigned<DotFloats> words;
  return hn::BitCast(DotFloats(), hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, w))));
}

HWY_INLINE float Widen(float w) {
  return w;
}
HWY_INLINE float Widen(std::uint16_t w) {
  return Bf16ToFloat(w);
}

// dots[r * kColumns + c] = x row r . w row c over `depth` elements; w is f32, or bf16 as std::uint16_t. Each
// vector loaded serves several products.
template <int kRows, int kColumns, typename Weight>
HWY_INLINE void DotTile(const float* HWY_RESTRICT x, std::int64_t x_stride, const Weight* HWY_RESTRICT w,
                        std::int64_t w_stride, std::int64_t depth, float* HWY_RESTRICT dots) {
  namespace hn = hwy::HWY_NAMESPACE;
  const DotFloats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  DotVec sums[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) sums[r][c] = hn::Zero(d);
  }
  std::int64_t i = 0;
  for (; i + lanes <= depth; i += lanes) {
    DotVec x_part[kRows];
    for (int r = 0; r < kRows; ++r) x_part[r] = hn::LoadU(d, x + r * x_stride + i);
    for (int c = 0; c < kColumns; ++c) {
      const DotVec w_part = LoadWide(w + c * w_stride + i);
      for (int r = 0; r < kRows; ++r) sums[r][c] = hn::MulAdd(x_part[r], w_part, sums[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[r][c]));
      for (std::int64_t j = i; j < depth; ++j) sum += x[r * x_stride + j] * Widen(w[c * w_stride + j]);
      dots[r * kColumns + c] = sum;
    }
  }
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCD_KERNELS_CPU_DOT_TILE_INL_H_
