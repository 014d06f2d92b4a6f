#include "kernels/cpu/few_rows_product.h"

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/cache_line.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/few_rows_product.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h, as it holds per-target code.
#include "kernels/cpu/dot_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <int kRows, int kLinesAhead, typename Weight>
HWY_INLINE void MultiplyRowTile(const FewRowsProduct& p, std::int64_t row, const Weight* HWY_RESTRICT w,
                                std::int64_t column, Ahead ahead) {
  float sums[kRows][4];
  DotTile<kRows, kLinesAhead>(p.x + row * p.x_stride, p.x_stride, w + column * p.depth, p.depth, p.depth,
                              sums, ahead);
  for (int r = 0; r < kRows; ++r) {
    float* out = p.out + (row + r) * p.out_stride + column;
    for (int c = 0; c < 4; ++c) {
      const float bias = p.bias == nullptr ? 0.0f : p.bias[column + c];
      out[c] = sums[r][c] + bias + (p.accumulate ? out[c] : 0.0f);
    }
  }
}

// All rows for four columns, in at least two tiles of up to three rows. The weights of the columns stay in
// cache from one tile to the next; meanwhile memory is asked for those of the next four columns, evenly, as
// the loads of x wait in the same queue.
template <typename Weight>
HWY_INLINE void MultiplyFourColumns(const FewRowsProduct& p, const Weight* HWY_RESTRICT w,
                                    std::int64_t column) {
  // The CPU's own look-ahead follows a row of weights as long as it stays in a page.
  constexpr std::int64_t kPageBytes = 4096;
  const std::int64_t row_bytes = p.depth * static_cast<std::int64_t>(sizeof(Weight));
  const std::byte* next = reinterpret_cast<const std::byte*>(w + (column + 4) * p.depth);
  if (p.rows <= 3 && row_bytes > kPageBytes) {
    if (p.rows == 3) return MultiplyRowTile<3, 0>(p, 0, w, column, {next, 0});
    if (p.rows == 2) return MultiplyRowTile<2, 0>(p, 0, w, column, {next, 0});
    return MultiplyRowTile<1, 0>(p, 0, w, column, {next, 0});
  }
  if (p.rows == 1) return MultiplyRowTile<1, 2>(p, 0, w, column, {next, 2 * kCacheLineBytes});
  const std::int64_t tiles = std::max<std::int64_t>(2, (p.rows + 2) / 3);
  const std::int64_t steps = p.depth / static_cast<std::int64_t>(hn::Lanes(DotFloats())) + 1;
  Ahead ahead{next, 4 * row_bytes / (tiles * steps)};
  std::int64_t row = 0;
  for (; p.rows - row >= 5 || (row > 0 && p.rows - row == 3); row += 3) {
    MultiplyRowTile<3, 1>(p, row, w, column, ahead);
    ahead.address += steps * ahead.step;
  }
  for (; p.rows > 2 && p.rows - row >= 2; row += 2) {
    MultiplyRowTile<2, 1>(p, row, w, column, ahead);
    ahead.address += steps * ahead.step;
  }
  for (; row < p.rows; ++row) {
    MultiplyRowTile<1, 1>(p, row, w, column, ahead);
    ahead.address += steps * ahead.step;
  }
}

template <typename Weight>
HWY_INLINE void MultiplyColumn(const FewRowsProduct& p, const Weight* HWY_RESTRICT w, std::int64_t column) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    float* out = p.out + row * p.out_stride + column;
    float sum = Dot(p.x + row * p.x_stride, w + column * p.depth, p.depth);
    if (p.bias != nullptr) sum += p.bias[column];
    *out = p.accumulate ? *out + sum : sum;
  }
}

template <typename Weight>
HWY_INLINE void Multiply(const FewRowsProduct& p, const Weight* HWY_RESTRICT w, std::int64_t begin,
                         std::int64_t end) {
  std::int64_t column = begin;
  for (; column + 4 <= end; column += 4) MultiplyFourColumns(p, w, column);
  for (; column < end; ++column) MultiplyColumn(p, w, column);
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
