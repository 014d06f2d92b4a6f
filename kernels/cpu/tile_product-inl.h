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

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {

// Columns are computed in groups of this many, on every target.
inline constexpr int kTileColumns = 16;

using TileFloats = hwy::HWY_NAMESPACE::CappedTag<float, kTileColumns>;
inline constexpr int kTileVectors =
    kTileColumns / static_cast<int>(hwy::HWY_NAMESPACE::MaxLanes(TileFloats()));
// Twelve sums in registers, where vectors are long enough for that to make sense.
inline constexpr int kTileRows = std::max(1, 12 / kTileVectors);

// c[kRows, kTileColumns] (+)= a[kRows, depth] b[depth, kTileColumns]
template <int kRows>
HWY_INLINE void MultiplyTile(const float* HWY_RESTRICT a, std::int64_t a_stride, const float* HWY_RESTRICT b,
                             std::int64_t b_stride, std::int64_t depth, float* HWY_RESTRICT c,
                             std::int64_t c_stride, bool accumulate) {
  namespace hn = hwy::HWY_NAMESPACE;
  const TileFloats d;
  constexpr int kLanes = kTileColumns / kTileVectors;
  hn::Vec<TileFloats> sums[kRows][kTileVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kTileVectors; ++v) {
      sums[r][v] = accumulate ? hn::LoadU(d, c + r * c_stride + v * kLanes) : hn::Zero(d);
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    hn::Vec<TileFloats> b_part[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v) b_part[v] = hn::LoadU(d, b + k * b_stride + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const auto a_part = hn::Set(d, a[r * a_stride + k]);
      for (int v = 0; v < kTileVectors; ++v) sums[r][v] = hn::MulAdd(a_part, b_part[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kTileVectors; ++v) hn::StoreU(sums[r][v], d, c + r * c_stride + v * kLanes);
  }
}

// The last `rows` <= kRows rows, by the tile of that size.
template <int kRows>
HWY_INLINE void MultiplyLastRows(std::int64_t rows, const float* a, std::int64_t a_stride, const float* b,
                                 std::int64_t b_stride, std::int64_t depth, float* c, std::int64_t c_stride,
                                 bool accumulate) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      MultiplyTile<kRows>(a, a_stride, b, b_stride, depth, c, c_stride, accumulate);
    } else {
      MultiplyLastRows<kRows - 1>(rows, a, a_stride, b, b_stride, depth, c, c_stride, accumulate);
    }
  }
}

// c[rows, columns] (+)= a[rows, depth] b[depth, columns], row-major; columns is a multiple of kTileColumns.
HWY_INLINE void TileProduct(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a,
                            std::int64_t a_stride, const float* b, std::int64_t b_stride, float* c,
                            std::int64_t c_stride, bool accumulate) {
  for (std::int64_t column = 0; column < columns; column += kTileColumns) {
    std::int64_t row = 0;
    for (; row + kTileRows <= rows; row += kTileRows) {
      MultiplyTile<kTileRows>(a + row * a_stride, a_stride, b + column, b_stride, depth,
                              c + row * c_stride + column, c_stride, accumulate);
    }
    MultiplyLastRows<kTileRows - 1>(rows - row, a + row * a_stride, a_stride, b + column, b_stride, depth,
                                    c + row * c_stride + column, c_stride, accumulate);
  }
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCD_KERNELS_CPU_TILE_PRODUCT_INL_H_
