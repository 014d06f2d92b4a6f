// A small f32 product whose operands fit in cache, register-tiled. Included once for each target.
#if defined(SCD_KERNELS_CPU_TILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCD_KERNELS_CPU_TILE_PRODUCT_INL_H_
#undef SCD_KERNELS_CPU_TILE_PRODUCT_INL_H_
#else
#define SCD_KERNELS_CPU_TILE_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {

// Columns are computed in groups of this many, on every target.
inline constexpr int kTileColumns = 16;

inline constexpr int kTileLanes = static_cast<int>(hwy::HWY_NAMESPACE::MaxLanes(WideFloats()));
static_assert(kTileColumns % kTileLanes == 0);
inline constexpr int kTileVectors = kTileColumns / kTileLanes;
// Twelve sums in registers, where vectors are long enough for that to make sense.
inline constexpr int kTileRows = std::max(1, 12 / kTileVectors);

// How the left operand lies in memory: element (row, k) at a[row * stride + k], or at a[k * stride + row].
enum class TileLeft { kRows, kColumns };

// c[kRows, kVectors vectors] (+)= a[kRows, depth] b[depth, the same columns]; b of any type that LoadWide
// takes.
template <int kRows, int kVectors, TileLeft kLeft, typename Right>
HWY_INLINE void MultiplyTile(const float* HWY_RESTRICT a, std::int64_t a_stride, const Right* HWY_RESTRICT b,
                             std::int64_t b_stride, std::int64_t depth, float* HWY_RESTRICT c,
                             std::int64_t c_stride, bool accumulate) {
  namespace hn = hwy::HWY_NAMESPACE;
  const WideFloats d;
  WideVec sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = accumulate ? hn::LoadU(d, c + r * c_stride + v * kTileLanes) : hn::Zero(d);
    }
  }
  const auto left = [&](int r, std::int64_t k) {
    return hn::Set(d, kLeft == TileLeft::kRows ? a[r * a_stride + k] : a[k * a_stride + r]);
  };
  const auto right = [&](int v, std::int64_t k) { return LoadWide(b + k * b_stride + v * kTileLanes); };
  // Of the smaller side all vectors are held, of the other one at a time: with the sums they fill the
  // registers.
  for (std::int64_t k = 0; k < depth; ++k) {
    if constexpr (kRows < kVectors) {
      WideVec a_part[kRows];
      for (int r = 0; r < kRows; ++r) a_part[r] = left(r, k);
      for (int v = 0; v < kVectors; ++v) {
        const WideVec b_part = right(v, k);
        for (int r = 0; r < kRows; ++r) sums[r][v] = hn::MulAdd(a_part[r], b_part, sums[r][v]);
      }
    } else {
      WideVec b_part[kVectors];
      for (int v = 0; v < kVectors; ++v) b_part[v] = right(v, k);
      for (int r = 0; r < kRows; ++r) {
        const WideVec a_part = left(r, k);
        for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(a_part, b_part[v], sums[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, c + r * c_stride + v * kTileLanes);
  }
}

// The last `rows` <= kRows rows, by the tile of that size.
template <int kRows, TileLeft kLeft>
HWY_INLINE void MultiplyLastRows(std::int64_t rows, const float* a, std::int64_t a_stride, const float* b,
                                 std::int64_t b_stride, std::int64_t depth, float* c, std::int64_t c_stride,
                                 bool accumulate) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      MultiplyTile<kRows, kTileVectors, kLeft>(a, a_stride, b, b_stride, depth, c, c_stride, accumulate);
    } else {
      MultiplyLastRows<kRows - 1, kLeft>(rows, a, a_stride, b, b_stride, depth, c, c_stride, accumulate);
    }
  }
}

// c[rows, kTileColumns] (+)= a[rows, depth] b[depth, kTileColumns]
template <TileLeft kLeft = TileLeft::kRows>
HWY_INLINE void TileProduct(std::int64_t rows, std::int64_t depth, const float* a, std::int64_t a_stride,
                            const float* b, std::int64_t b_stride, float* c, std::int64_t c_stride,
                            bool accumulate) {
  const std::int64_t a_row = kLeft == TileLeft::kRows ? a_stride : 1;
  std::int64_t row = 0;
  for (; row + kTileRows <= rows; row += kTileRows) {
    MultiplyTile<kTileRows, kTileVectors, kLeft>(a + row * a_row, a_stride, b, b_stride, depth,
                                                 c + row * c_stride, c_stride, accumulate);
  }
  MultiplyLastRows<kTileRows - 1, kLeft>(rows - row, a + row * a_row, a_stride, b, b_stride, depth,
                                         c + row * c_stride, c_stride, accumulate);
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCD_KERNELS_CPU_TILE_PRODUCT_INL_H_
