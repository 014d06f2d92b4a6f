// Attention of a few query vectors (decode steps): every number of K and V is read once, as it lies in the
// pages, so that this runs at the speed of memory. Included once for each target.
#if defined(SCD_KERNELS_CPU_ATTENTION_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCD_KERNELS_CPU_ATTENTION_DOTS_INL_H_
#undef SCD_KERNELS_CPU_ATTENTION_DOTS_INL_H_
#else
#define SCD_KERNELS_CPU_ATTENTION_DOTS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/attention_state.h"
#include "kernels/cpu/cache_line.h"
#include "kernels/cpu/dot_tile-inl.h"
#include "kernels/cpu/exp2-inl.h"
#include "kernels/cpu/kv_slots.h"
#include "kernels/cpu/kv_vector-inl.h"
#include "kernels/cpu/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {

class DotAttention {
 public:
  DotAttention(const AttentionBlock& block, float* state, float* scratch)
      : block_(block),
        shape_(block),
        state_(shape_, state),
        k_(*block.kv, KvPart::kK),
        v_(*block.kv, KvPart::kV),
        scores_(scratch),
        values_(scores_ + shape_.vectors * kTile),
        queries_(values_ + kTile * shape_.padded_dim) {}

  static std::size_t ScratchFloats(const AttentionShape& shape) {
    return static_cast<std::size_t>(shape.vectors * (kTile + shape.head_dim) + kTile * shape.padded_dim);
  }

  // T: the element type of the pages.
  template <typename T>
  void Run(Range positions) {
    Start();
    for (std::int64_t begin = positions.begin; begin < positions.end; begin += kTile) {
      const Range tile{begin, std::min(positions.end, begin + kTile)};
      k_.ForEachRun<T>(block_.kv_head, tile,
                       [&](const T* k, const float* scales, std::int64_t offset, std::int64_t count) {
                         // While K is multiplied, memory is asked for V of the same positions, which is next.
                         Score(k, v_.Vector<T>(block_.kv_head, tile.begin + offset), offset, count);
                         ScaleScores(scales, offset, count);
                       });
      for (std::int64_t i = 0; i < shape_.vectors; ++i) Softmax(tile, i);
      v_.ForEachRun<T>(block_.kv_head, tile,
                       [&](const T* v, const float* scales, std::int64_t offset, std::int64_t count) {
                         if (shape_.padded_dim != shape_.head_dim) return Gather(v, scales, offset, count);
                         ScaleScores(scales, offset, count);
                         AddValues(v, offset, count);
                       });
      if (shape_.padded_dim != shape_.head_dim) AddValues(values_, 0, tile.end - tile.begin);
    }
  }

 private:
  static constexpr std::int64_t kTile = 128;

  void Start() {
    // Weights are powers of two, not of e.
    const float scale = block_.scale * kLog2E;
    for (std::int64_t i = 0; i < shape_.vectors; ++i) {
      const float* q = block_.q + VectorOffset(block_, i, block_.q_stride);
      for (std::int64_t j = 0; j < shape_.head_dim; ++j) queries_[i * shape_.head_dim + j] = q[j] * scale;
      state_.largest[i] = kNothingYet;
      state_.total[i] = 0.0f;
    }
    std::fill_n(state_.sums, shape_.vectors * shape_.padded_dim, 0.0f);
  }

  // scores of the vectors with `count` keys.
  template <typename T>
  void Score(const T* k, const T* v, std::int64_t offset, std::int64_t count) {
    const std::int64_t dim = shape_.head_dim;
    constexpr int kLines = sizeof(T) == sizeof(float) ? 2 : 1;
    std::int64_t p = 0;
    for (; p + 4 <= count; p += 4) {
      Ahead ahead{reinterpret_cast<const std::byte*>(v + p * dim), kLines * kCacheLineBytes};
      std::int64_t i = 0;
      if (shape_.vectors >= 3) {
        DotQueries<3, kLines>(0, k + p * dim, offset + p, ahead);
        i = 3;
      } else {
        DotQueries<1, kLines>(0, k + p * dim, offset + p, ahead);
        i = 1;
      }
      for (; shape_.vectors - i >= 3; i += 3) DotQueries<3, 0>(i, k + p * dim, offset + p, ahead);
      for (; i < shape_.vectors; ++i) DotQueries<1, 0>(i, k + p * dim, offset + p, ahead);
    }
    for (; p < count; ++p) {
      for (std::int64_t i = 0; i < shape_.vectors; ++i) {
        scores_[i * kTile + offset + p] = Dot(queries_ + i * dim, k + p * dim, dim);
      }
    }
  }

  // kCount queries with four keys.
  template <int kCount, int kLinesAhead, typename T>
  void DotQueries(std::int64_t first, const T* k, std::int64_t column, Ahead ahead) {
    float dots[kCount][4];
    const std::int64_t dim = shape_.head_dim;
    DotTile<kCount, kLinesAhead>(queries_ + first * dim, dim, k, dim, dim, dots, ahead);
    for (int i = 0; i < kCount; ++i) std::copy_n(dots[i], 4, scores_ + (first + i) * kTile + column);
  }

  void ScaleScores(const float* scales, std::int64_t offset, std::int64_t count) {
    if (scales == nullptr) return;
    for (std::int64_t i = 0; i < shape_.vectors; ++i) {
      float* HWY_RESTRICT scores = scores_ + i * kTile + offset;
      for (std::int64_t p = 0; p < count; ++p) scores[p] *= scales[p];
    }
  }

  // Turns the scores of vector i into weights against the largest score so far.
  void Softmax(Range tile, std::int64_t i) {
    namespace hn = hwy::HWY_NAMESPACE;
    const WideFloats d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    float* HWY_RESTRICT scores = scores_ + i * kTile;
    const std::int64_t size = tile.end - tile.begin;
    const std::int64_t padded_size = Partition::RoundUp(size, lanes);
    const std::int64_t ahead = block_.first_position + i / block_.group_heads + 1 - tile.begin;
    const std::int64_t end = std::clamp<std::int64_t>(ahead, 0, size);
    const std::int64_t begin =
        block_.sliding_window == 0 ? 0 : std::clamp<std::int64_t>(ahead - block_.sliding_window, 0, end);
    if (begin == end) {
      std::fill_n(scores, padded_size, 0.0f);
      return;
    }
    std::fill(scores, scores + begin, kNothingYet);
    std::fill(scores + end, scores + padded_size, kNothingYet);
    auto largest = hn::Set(d, state_.largest[i]);
    for (std::int64_t p = 0; p < padded_size; p += lanes) {
      largest = hn::Max(largest, hn::LoadU(d, scores + p));
    }
    const float new_largest = hn::GetLane(hn::MaxOfLanes(d, largest));
    if (new_largest > state_.largest[i]) {
      Rescale(i, std::exp2(state_.largest[i] - new_largest));
      state_.largest[i] = new_largest;
    }
    const auto shift = hn::Set(d, new_largest);
    auto total = hn::Zero(d);
    for (std::int64_t p = 0; p < padded_size; p += lanes) {
      const auto weight = Exp2UpTo126(d, hn::Sub(hn::LoadU(d, scores + p), shift));
      total = hn::Add(total, weight);
      hn::StoreU(weight, d, scores + p);
    }
    state_.total[i] += hn::GetLane(hn::SumOfLanes(d, total));
  }

  void Rescale(std::int64_t i, float factor) {
    state_.total[i] *= factor;
    float* HWY_RESTRICT sums = state_.sums + i * state_.stride;
    for (std::int64_t j = 0; j < shape_.padded_dim; ++j) sums[j] *= factor;
  }

  // Where heads are not whole groups of columns, V goes through memory that is.
  template <typename T>
  void Gather(const T* v, const float* scales, std::int64_t offset, std::int64_t count) {
    for (std::int64_t p = 0; p < count; ++p) {
      float* to = values_ + (offset + p) * shape_.padded_dim;
      LoadKv(v + p * shape_.head_dim, scales == nullptr ? nullptr : scales + p, shape_.head_dim, to);
      std::fill(to + shape_.head_dim, to + shape_.padded_dim, 0.0f);
    }
  }

  // Adds `count` positions of the tile from `offset`, whose V is at v [count, padded_dim].
  template <typename T>
  void AddValues(const T* v, std::int64_t offset, std::int64_t count) {
    std::int64_t i = 0;
    for (; shape_.vectors - i >= 3; i += 3) AddValuesTo<3>(i, v, offset, count);
    for (; i < shape_.vectors; ++i) AddValuesTo<1>(i, v, offset, count);
  }

  template <int kCount, typename T>
  void AddValuesTo(std::int64_t first, const T* v, std::int64_t offset, std::int64_t count) {
    constexpr int kWideVectors = 4;
    constexpr std::int64_t kWide = kWideVectors * kTileLanes;
    const std::int64_t dim = shape_.padded_dim;
    const float* weights = scores_ + first * kTile + offset;
    float* sums = state_.sums + first * state_.stride;
    std::int64_t j = 0;
    for (; j + kWide <= dim; j += kWide) {
      MultiplyTile<kCount, kWideVectors, TileLeft::kRows>(weights, kTile, v + j, dim, count, sums + j,
                                                          state_.stride, true);
    }
    for (; j < dim; j += kTileColumns) {
      MultiplyTile<kCount, kTileVectors, TileLeft::kRows>(weights, kTile, v + j, dim, count, sums + j,
                                                          state_.stride, true);
    }
  }

  const AttentionBlock& block_;
  const AttentionShape shape_;
  const AttentionState<float> state_;
  const KvSlots k_;
  const KvSlots v_;
  float* const scores_;   // [vectors, kTile]: scores of a tile, then their weights
  float* const values_;   // [kTile, padded_dim]: V of a tile, where it is gathered
  float* const queries_;  // [vectors, head_dim]: scaled
};

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCD_KERNELS_CPU_ATTENTION_DOTS_INL_H_
