// Dot products of a few vectors with four others at once. Included once for each target.
#if defined(SCD_KERNELS_CPU_DOT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCD_KERNELS_CPU_DOT_TILE_INL_H_
#undef SCD_KERNELS_CPU_DOT_TILE_INL_H_
#else
#define SCD_KERNELS_CPU_DOT_TILE_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/cache_line.h"
#include "kernels/cpu/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {

using DotFloats = WideFloats;
using DotVec = WideVec;

#if HWY_TARGET == HWY_SCALAR

// sums[c] = the sum of the lanes of vc.
HWY_INLINE void SumsOfLanes(DotVec v0, DotVec v1, DotVec v2, DotVec v3, float* HWY_RESTRICT sums) {
  const DotVec vectors[4] = {v0, v1, v2, v3};
  for (int c = 0; c < 4; ++c) sums[c] = hwy::HWY_NAMESPACE::GetLane(vectors[c]);
}

#else

// sums[0..4) = the 128-bit blocks of v, added up.
template <class D>
HWY_INLINE void SumOfBlocks(D d, hwy::HWY_NAMESPACE::Vec<D> v, float* HWY_RESTRICT sums) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(v, d, sums);
  } else {
    const hn::Half<D> half;
    SumOfBlocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), sums);
  }
}

// sums[c] = the sum of the lanes of vc: vectors are interleaved within blocks so that they are added side by
// side.
HWY_INLINE void SumsOfLanes(DotVec v0, DotVec v1, DotVec v2, DotVec v3, float* HWY_RESTRICT sums) {
  namespace hn = hwy::HWY_NAMESPACE;
  const DotFloats d;
  const hn::Repartition<std::uint64_t, DotFloats> pairs;
  const DotVec v01 = hn::Add(hn::InterleaveLower(d, v0, v1), hn::InterleaveUpper(d, v0, v1));
  const DotVec v23 = hn::Add(hn::InterleaveLower(d, v2, v3), hn::InterleaveUpper(d, v2, v3));
  const auto low = hn::InterleaveLower(pairs, hn::BitCast(pairs, v01), hn::BitCast(pairs, v23));
  const auto high = hn::InterleaveUpper(pairs, hn::BitCast(pairs, v01), hn::BitCast(pairs, v23));
  SumOfBlocks(d, hn::Add(hn::BitCast(d, low), hn::BitCast(d, high)), sums);
}

#endif

// Memory to ask for while sums are computed: some lines for each step along a row, from `address`, which
// moves on by `step` bytes each time. May be any address.
struct Ahead {
  const std::byte* address;
  std::int64_t step;
};

// dots[r][c] = row r of x with row c of w, over `depth` elements; w is f32, bf16 as std::uint16_t, or
// std::int8_t. Each vector loaded serves several products.
template <int kRows, int kLinesAhead = 0, typename Weight>
HWY_INLINE void DotTile(const float* HWY_RESTRICT x, std::int64_t x_stride, const Weight* HWY_RESTRICT w,
                        std::int64_t w_stride, std::int64_t depth, float (&dots)[kRows][4],
                        Ahead ahead = {nullptr, 0}) {
  namespace hn = hwy::HWY_NAMESPACE;
  const DotFloats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  DotVec sums[kRows][4];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < 4; ++c) sums[r][c] = hn::Zero(d);
  }
  std::int64_t i = 0;
  for (; i + lanes <= depth; i += lanes) {
    DotVec x_part[kRows];
    for (int line = 0; line < kLinesAhead; ++line) hwy::Prefetch(ahead.address + line * kCacheLineBytes);
    ahead.address += ahead.step;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) x_part[r] = hn::LoadU(d, x + r * x_stride + i);
#pragma GCC unroll 8
    for (int c = 0; c < 4; ++c) {
      const DotVec w_part = LoadWide(w + c * w_stride + i);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r][c] = hn::MulAdd(x_part[r], w_part, sums[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) SumsOfLanes(sums[r][0], sums[r][1], sums[r][2], sums[r][3], dots[r]);
  for (; i < depth; ++i) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < 4; ++c) dots[r][c] += x[r * x_stride + i] * Widen(w[c * w_stride + i]);
    }
  }
}

// The same for a single row of w.
template <typename Weight>
HWY_INLINE float Dot(const float* HWY_RESTRICT x, const Weight* HWY_RESTRICT w, std::int64_t depth) {
  namespace hn = hwy::HWY_NAMESPACE;
  const DotFloats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  DotVec sums = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= depth; i += lanes) sums = hn::MulAdd(hn::LoadU(d, x + i), LoadWide(w + i), sums);
  float sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < depth; ++i) sum += x[i] * Widen(w[i]);
  return sum;
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCD_KERNELS_CPU_DOT_TILE_INL_H_
