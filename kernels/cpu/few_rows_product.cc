#include "kernels/cpu/few_rows_product.h"

#include <algorithm>
#include <cstddef>

#include "kernels/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/few_rows_product.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVec = hn::Vec<Floats>;

HWY_INLINE FloatVec LoadWeights(const float* w) { return hn::LoadU(Floats(), w); }

HWY_INLINE FloatVec LoadWeights(const std::uint16_t* w) {
  const hn::Rebind<std::uint16_t, Floats> halves;
  const hn::RebindToUnsigned<Floats> words;
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, w))));
}

HWY_INLINE float Widen(float w) { return w; }
HWY_INLINE float Widen(std::uint16_t w) { return Bf16ToFloat(w); }

// kRows x kColumns dot products at once, so that each vector loaded serves several of them.
template <int kRows, int kColumns, typename Weight>
HWY_INLINE void DotTile(const FewRowsProduct& p, std::int64_t row, const Weight* HWY_RESTRICT w, std::int64_t column) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float* x[kRows];
  const Weight* w_rows[kColumns];
  FloatVec sums[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) x[r] = p.x + (row + r) * p.x_stride;
  for (int c = 0; c < kColumns; ++c) w_rows[c] = w + (column + c) * p.depth;
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) sums[r][c] = hn::Zero(d);
  }
  std::int64_t i = 0;
  for (; i + lanes <= p.depth; i += lanes) {
    FloatVec x_part[kRows];
    for (int r = 0; r < kRows; ++r) x_part[r] = hn::LoadU(d, x[r] + i);
    for (int c = 0; c < kColumns; ++c) {
      const FloatVec w_part = LoadWeights(w_rows[c] + i);
      for (int r = 0; r < kRows; ++r) sums[r][c] = hn::MulAdd(x_part[r], w_part, sums[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* out = p.out + (row + r) * p.out_stride + column;
    for (int c = 0; c < kColumns; ++c) {
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[r][c]));
      for (std::int64_t j = i; j < p.depth; ++j) sum += x[r][j] * Widen(w_rows[c][j]);
      if (p.bias != nullptr) sum += p.bias[column + c];
      out[c] = p.accumulate ? out[c] + sum : sum;
    }
  }
}

// All rows for kColumns columns; the weights of the columns stay in cache from one tile of rows to the next.
template <int kColumns, typename Weight>
HWY_INLINE void MultiplyColumns(const FewRowsProduct& p, const Weight* HWY_RESTRICT w, std::int64_t column) {
  std::int64_t row = 0;
  for (; row + 3 <= p.rows; row += 3) DotTile<3, kColumns>(p, row, w, column);
  if (p.rows - row == 2) DotTile<2, kColumns>(p, row, w, column);
  if (p.rows - row == 1) DotTile<1, kColumns>(p, row, w, column);
}

template <typename Weight>
HWY_INLINE void Multiply(const FewRowsProduct& p, const Weight* HWY_RESTRICT w, std::int64_t begin, std::int64_t end) {
  std::int64_t column = begin;
  for (; column + 4 <= end; column += 4) MultiplyColumns<4>(p, w, column);
  for (; column < end; ++column) MultiplyColumns<1>(p, w, column);
}

void MultiplyF32(const FewRowsProduct& p, const float* w, std::int64_t begin, std::int64_t end) {
  Multiply(p, w, begin, end);
}

void MultiplyBf16(const FewRowsProduct& p, const std::uint16_t* w, std::int64_t begin, std::int64_t end) {
  Multiply(p, w, begin, end);
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scd::cpu {

HWY_EXPORT(MultiplyF32);
HWY_EXPORT(MultiplyBf16);

void MultiplyFewRowsF32(const FewRowsProduct& product, const float* w, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(MultiplyF32)(product, w, begin, end);
}

void MultiplyFewRowsBf16(const FewRowsProduct& product, const std::uint16_t* w, std::int64_t begin,
                         std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(MultiplyBf16)(product, w, begin, end);
}

}  // namespace scd::cpu
#endif
