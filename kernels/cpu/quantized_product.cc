#include "kernels/cpu/quantized_product.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/cache_line.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantized_product.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h, as it holds per-target code.
#include "kernels/cpu/int8_dot-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using BlockFloats = hn::RebindToFloat<DotWords>;
inline constexpr int kBlockVectors =
    static_cast<int>(kBlockColumns) / static_cast<int>(hn::MaxLanes(DotWords()));
inline constexpr int kVectorLanes = static_cast<int>(hn::MaxLanes(DotWords()));
// Rows whose sums are kept in registers together.
inline constexpr int kTileRows = kBlockVectors == 1       ? 8
                                 : kBlockVectors == 2     ? 4
                                 : HWY_TARGET == HWY_NEON ? 2
                                                          : 1;

HWY_INLINE hn::Vec<BlockFloats> LoadScales(const float* scales) {
  return hn::LoadU(BlockFloats(), scales);
}
HWY_INLINE hn::Vec<BlockFloats> LoadScales(const hwy::float16_t* scales) {
  return hn::PromoteTo(BlockFloats(), hn::LoadU(hn::Rebind<hwy::float16_t, BlockFloats>(), scales));
}

// Four activations in every lane.
HWY_INLINE DotWord LoadStep(const std::int8_t* x) {
  std::int32_t word;
  std::memcpy(&word, x, sizeof(word));
  return hn::Set(DotWords(), word);
}

HWY_INLINE DotWord LoadWords(const std::uint32_t* words) {
  return hn::BitCast(DotWords(), hn::LoadU(hn::RebindToUnsigned<DotWords>(), words));
}

// What a tile reads: a block of weights and kRows rows from `row` on; memory to ask for meanwhile, evenly.
template <typename Scale>
struct Tile {
  const QuantizedRows& x;
  std::int64_t row;
  const std::uint32_t* words;
  const Scale* scales;
  std::int64_t groups;
  const std::byte* ahead;
  std::int64_t ahead_step;  // bytes for each group
};

// Integer sums of one group.
template <int kRows>
HWY_INLINE void MultiplyGroup4(const std::uint32_t* HWY_RESTRICT words, const std::int8_t* const (&x)[kRows],
                               std::int64_t begin, typename Nibbles::Sums (&sums)[kRows][kBlockVectors]) {
  const DotWord lower_half = hn::Set(DotWords(), 0x0f0f0f0f);
  // Unrolled, the compiler puts off the additions of all steps, and runs out of registers.
#pragma GCC unroll 1
  for (std::int64_t step = 0; step < kGroupSteps; step += 2) {
    DotWord w[kBlockVectors];
    DotWord w_next[kBlockVectors];
    for (int v = 0; v < kBlockVectors; ++v) {
      const DotWord both = LoadWords(words + step / 2 * kBlockColumns + v * kVectorLanes);
      w[v] = hn::And(both, lower_half);
      w_next[v] = hn::And(hn::ShiftRight<4>(both), lower_half);
    }
    for (int r = 0; r < kRows; ++r) {
      const DotWord x_part = LoadStep(x[r] + begin + step * kStepInputs);
      for (int v = 0; v < kBlockVectors; ++v) sums[r][v] = Nibbles::Add(sums[r][v], w[v], x_part);
      const DotWord x_next = LoadStep(x[r] + begin + (step + 1) * kStepInputs);
      for (int v = 0; v < kBlockVectors; ++v) sums[r][v] = Nibbles::Add(sums[r][v], w_next[v], x_next);
    }
  }
}

template <int kRows>
HWY_INLINE void MultiplyGroup8(const std::uint32_t* HWY_RESTRICT words, const std::int8_t* const (&x)[kRows],
                               std::int64_t begin, typename Bytes::Sums (&sums)[kRows][kBlockVectors]) {
#pragma GCC unroll 1
  for (std::int64_t step = 0; step < kGroupSteps; ++step) {
    DotWord w[kBlockVectors];
    for (int v = 0; v < kBlockVectors; ++v) w[v] = LoadWords(words + step * kBlockColumns + v * kVectorLanes);
    for (int r = 0; r < kRows; ++r) {
      const DotWord x_part = LoadStep(x[r] + begin + step * kStepInputs);
      for (int v = 0; v < kBlockVectors; ++v) sums[r][v] = Bytes::Add(sums[r][v], w[v], x_part);
    }
  }
}

// out[kRows, kBlockColumns] = the products of the tile.
template <int kBits, bool kMinimums, int kRows, typename Scale>
HWY_INLINE void MultiplyTile(Tile<Scale> tile, float* HWY_RESTRICT out) {
  using Dot = std::conditional_t<kBits == 4, Nibbles, Bytes>;
  constexpr std::int64_t kGroupWords = kBlockColumns * kGroupSteps * kBits / 8;
  const BlockFloats d;
  const std::int8_t* x[kRows];
  const RowGroup* row_groups[kRows];
  hn::Vec<BlockFloats> totals[kRows][kBlockVectors];
  for (int r = 0; r < kRows; ++r) {
    x[r] = tile.x.values(tile.row + r);
    row_groups[r] = tile.x.groups(tile.row + r);
    for (int v = 0; v < kBlockVectors; ++v) totals[r][v] = hn::Zero(d);
  }
  for (std::int64_t g = 0; g < tile.groups; ++g) {
    for (std::int64_t byte = 0; byte < tile.ahead_step; byte += kCacheLineBytes)
      hwy::Prefetch(tile.ahead + byte);
    tile.ahead += tile.ahead_step;

    typename Dot::Sums sums[kRows][kBlockVectors];
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kBlockVectors; ++v) sums[r][v] = Dot::Start(row_groups[r][g].values_sum);
    }
    if constexpr (kBits == 4) {
      MultiplyGroup4<kRows>(tile.words, x, g * kWeightGroup, sums);
    } else {
      MultiplyGroup8<kRows>(tile.words, x, g * kWeightGroup, sums);
    }
    tile.words += kGroupWords;

    for (int v = 0; v < kBlockVectors; ++v) {
      const auto scale = LoadScales(tile.scales + v * kVectorLanes);
      for (int r = 0; r < kRows; ++r) {
        const auto both_scales = hn::Mul(scale, hn::Set(d, row_groups[r][g].scale));
        totals[r][v] = hn::MulAdd(hn::ConvertTo(d, Dot::Total(sums[r][v])), both_scales, totals[r][v]);
      }
      if constexpr (kMinimums) {
        const auto minimum = LoadScales(tile.scales + kBlockColumns + v * kVectorLanes);
        for (int r = 0; r < kRows; ++r) {
          totals[r][v] = hn::MulAdd(minimum, hn::Set(d, row_groups[r][g].sum), totals[r][v]);
        }
      }
    }
    tile.scales += (kMinimums ? 2 : 1) * kBlockColumns;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kBlockVectors; ++v) {
      hn::StoreU(totals[r][v], d, out + r * kBlockColumns + v * kVectorLanes);
    }
  }
}

// `rows` <= kRows, by the tile of that size.
template <int kBits, bool kMinimums, int kRows, typename Scale>
HWY_INLINE void MultiplyRows(std::int64_t rows, const Tile<Scale>& tile, float* out) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return MultiplyRows<kBits, kMinimums, kRows - 1>(rows, tile, out);
  }
  MultiplyTile<kBits, kMinimums, kRows>(tile, out);
}

HWY_INLINE void PutTile(const QuantizedProduct& p, std::int64_t row, std::int64_t rows, Range columns,
                        const float* HWY_RESTRICT sums) {
  for (std::int64_t r = 0; r < rows; ++r, sums += kBlockColumns) {
    float* HWY_RESTRICT out = p.out + (row + r) * p.out_stride + columns.begin - p.first_column;
    for (std::int64_t c = 0; c < columns.end - columns.begin; ++c) {
      const float bias = p.bias == nullptr ? 0.0f : p.bias[columns.begin + c];
      out[c] = sums[c] + bias + (p.accumulate ? out[c] : 0.0f);
    }
  }
}

template <int kBits, bool kMinimums, typename Scale>
void MultiplyBlocks(const QuantizedProduct& p, Range blocks, const Scale* scales) {
  const std::int64_t rows = p.x.rows();
  const std::int64_t groups = p.weights.groups();
  const std::int64_t num_tiles = Partition::CeilDiv(rows, kTileRows);
  const std::int64_t block_words = groups * p.weights.words_of_group();
  const std::int64_t block_bytes = block_words * static_cast<std::int64_t>(sizeof(std::uint32_t));
  const std::int64_t ahead_step = Partition::CeilDiv(block_bytes, groups * num_tiles);
  for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
    const std::uint32_t* words = p.weights.words(block);
    const auto* next = reinterpret_cast<const std::byte*>(words + block_words);
    for (std::int64_t t = 0; t < num_tiles; ++t) {
      const std::int64_t row = t * kTileRows;
      const std::int64_t count = std::min<std::int64_t>(kTileRows, rows - row);
      float sums[kTileRows * kBlockColumns];
      MultiplyRows<kBits, kMinimums, kTileRows>(
          count, Tile<Scale>{p.x, row, words, scales, groups, next + t * groups * ahead_step, ahead_step},
          sums);
      PutTile(p, row, count, p.weights.ColumnsOf(block), sums);
    }
    scales += groups * p.weights.scales_of_group();
  }
}

template <typename Scale>
void MultiplyScaled(const QuantizedProduct& p, Range blocks, const Scale* scales) {
  if (p.weights.bits() == 4) {
    if (p.weights.has_minimums()) return MultiplyBlocks<4, true>(p, blocks, scales);
    return MultiplyBlocks<4, false>(p, blocks, scales);
  }
  if (p.weights.has_minimums()) return MultiplyBlocks<8, true>(p, blocks, scales);
  MultiplyBlocks<8, false>(p, blocks, scales);
}

void Multiply(const QuantizedProduct& p, Range blocks) {
  const float* wide_scales = p.weights.wide_scales(blocks.begin);
  if (wide_scales != nullptr) return MultiplyScaled(p, blocks, wide_scales);
  MultiplyScaled(p, blocks, p.weights.half_scales(blocks.begin));
}

}  // namespace scd::cpu::HWY_NAMESPACE
#if HWY_TARGET == HWY_AVX3
HWY_POP_ATTRIBUTES
#else
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace scd::cpu {

HWY_EXPORT(Multiply);

void MultiplyQuantized(const QuantizedProduct& product, Range blocks) {
#if HWY_TARGETS & HWY_AVX3
  // int8_dot-inl.h says why. Asked once: the library asks the processor anew each time, which costs
  // microseconds on a virtual machine.
  static const bool lacks_vnni =
      (hwy::SupportedTargets() & HWY_AVX3) != 0 && !__builtin_cpu_supports("avx512vnni");
  if (lacks_vnni) return N_AVX2::Multiply(product, blocks);
#endif
  HWY_DYNAMIC_DISPATCH(Multiply)(product, blocks);
}

}  // namespace scd::cpu
#endif
