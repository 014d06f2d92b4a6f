#include "kernels/cpu/few_rows_product.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/few_rows_product.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h, as it holds per-target code.
#include "kernels/cpu/dot_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <int kRows, int kColumns, typename Weight>
HWY_INLINE void MultiplyTile(const FewRowsProduct& p, std::int64_t row, const Weight* HWY_RESTRICT w,
                             std::int64_t column) {
  float sums[kRows * kColumns];
  DotTile<kRows, kColumns>(p.x + row * p.x_stride, p.x_stride, w + column * p.depth, p.depth, p.depth, sums);
  for (int r = 0; r < kRows; ++r) {
    float* out = p.out + (row + r) * p.out_stride + column;
    for (int c = 0; c < kColumns; ++c) {
      float sum = sums[r * kColumns + c];
      if (p.bias != nullptr) sum += p.bias[column + c];
      out[c] = p.accumulate ? out[c] + sum : sum;
    }
  }
}

// All rows for kColumns columns; the weights of the columns stay in cache from one tile of rows to the next.
template <int kColumns, typename Weight>
HWY_INLINE void MultiplyColumns(const FewRowsProduct& p, const Weight* HWY_RESTRICT w, std::int64_t column) {
  std::int64_t row = 0;
  for (; row + 3 <= p.rows; row += 3) MultiplyTile<3, kColumns>(p, row, w, column);
  if (p.rows - row == 2) MultiplyTile<2, kColumns>(p, row, w, column);
  if (p.rows - row == 1) MultiplyTile<1, kColumns>(p, row, w, column);
}

template <typename Weight>
HWY_INLINE void Multiply(const FewRowsProduct& p, const Weight* HWY_RESTRICT w, std::int64_t begin,
                         std::int64_t end) {
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

Partition FewRowsPieces(int num_threads, std::int64_t columns, std::int64_t depth) {
  // A thread takes a few pieces rather than one, so that a slow one does not hold up the rest; a piece is
  // large enough to be worth the handing out.
  constexpr std::int64_t kPiecesPerThread = 4;
  constexpr std::int64_t kMinPieceWeights = 1 << 15;
  const std::int64_t worthwhile = std::max<std::int64_t>(1, columns * depth / kMinPieceWeights);
  const std::int64_t wanted = num_threads == 1 ? 1 : num_threads * kPiecesPerThread;
  return Partition(columns, std::min(wanted, worthwhile), 4);
}

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
