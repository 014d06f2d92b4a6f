// Attention of many query vectors: a tile of K and V is brought to f32 in cache once for all of them; vectors
// go through it in panels, one vector to a lane, so that K needs no turning around and softmax no sums across
// lanes. Included once for each target.
#if defined(SCD_KERNELS_CPU_ATTENTION_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCD_KERNELS_CPU_ATTENTION_PANELS_INL_H_
#undef SCD_KERNELS_CPU_ATTENTION_PANELS_INL_H_
#else
#define SCD_KERNELS_CPU_ATTENTION_PANELS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/attention_state.h"
#include "kernels/cpu/exp2-inl.h"
#include "kernels/cpu/kv_slots.h"
#include "kernels/cpu/kv_vector-inl.h"
#include "kernels/cpu/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {

class PanelAttention {
 public:
  PanelAttention(const AttentionBlock& block, float* state, float* scratch)
      : block_(block),
        shape_(block),
        state_(shape_, state),
        scores_(scratch),
        keys_(scores_ + kTile * kPanel),
        values_(keys_ + kTile * shape_.head_dim),
        queries_(values_ + kTile * shape_.padded_dim),
        rows_(queries_ + shape_.padded_vectors * shape_.head_dim) {}

  static std::size_t ScratchFloats(const AttentionShape& shape) {
    return static_cast<std::size_t>(kTile * (kPanel + shape.head_dim + shape.padded_dim) +
                                    shape.padded_vectors * (shape.head_dim + 1));
  }

  // T: the element type of the pages.
  template <typename T>
  void Run(Range positions) {
    Start();
    for (std::int64_t begin = positions.begin; begin < positions.end; begin += kTile) {
      const Range tile{begin, std::min(positions.end, begin + kTile)};
      Gather<T>(tile);
      for (std::int64_t panel = 0; panel < shape_.vectors; panel += kPanel) AddPanel(tile, panel);
    }
  }

 private:
  static constexpr std::int64_t kPanel = kTileColumns;
  static_assert(kPanel == kAttentionGroup);
  // Positions in a tile: a multiple of the rows of every target's product tile.
  static constexpr std::int64_t kTile = 96;

  void Start() {
    // Weights are powers of two, not of e.
    const float scale = block_.scale * kLog2E;
    for (std::int64_t i = 0; i < shape_.padded_vectors; ++i) {
      // A lane without a vector does as the last one.
      const std::int64_t vector = std::min(i, shape_.vectors - 1);
      rows_[i] = static_cast<float>(vector / block_.group_heads);
      state_.largest[i] = kNothingYet;
      state_.total[i] = 0.0f;
      const float* q = block_.q + VectorOffset(block_, vector, block_.q_stride);
      float* column = queries_ + i / kPanel * kPanel * shape_.head_dim + i % kPanel;
      for (std::int64_t j = 0; j < shape_.head_dim; ++j) column[j * kPanel] = q[j] * scale;
    }
    std::fill_n(state_.sums, shape_.vectors * shape_.padded_dim, 0.0f);
  }

  // keys_ [positions, head_dim]; values_ in groups of columns: [padded_dim / kPanel, kTile, kPanel].
  template <typename T>
  void Gather(Range tile) {
    const std::int64_t dim = shape_.head_dim;
    KvSlots(*block_.kv, KvPart::kK)
        .ForEachRun<T>(block_.kv_head, tile,
                       [&](const T* k, const float* scales, std::int64_t offset, std::int64_t count) {
                         if (scales == nullptr) return LoadKv(k, nullptr, count * dim, keys_ + offset * dim);
                         for (std::int64_t p = 0; p < count; ++p) {
                           LoadKv(k + p * dim, scales + p, dim, keys_ + (offset + p) * dim);
                         }
                       });
    KvSlots(*block_.kv, KvPart::kV)
        .ForEachRun<T>(block_.kv_head, tile,
                       [&](const T* v, const float* scales, std::int64_t offset, std::int64_t count) {
                         for (std::int64_t p = 0; p < count; ++p) {
                           GatherValue(v + p * dim, scales == nullptr ? nullptr : scales + p, offset + p);
                         }
                       });
  }

  template <typename T>
  void GatherValue(const T* v, const float* scale, std::int64_t position) {
    float* to = values_ + position * kPanel;
    std::int64_t j = 0;
    for (; j + kPanel <= shape_.head_dim; j += kPanel) LoadKv(v + j, scale, kPanel, to + j * kTile);
    if (j == shape_.head_dim) return;
    std::fill_n(to + j * kTile, kPanel, 0.0f);
    LoadKv(v + j, scale, shape_.head_dim - j, to + j * kTile);
  }

  // The vectors of a panel with the positions of the gathered tile.
  void AddPanel(Range tile, std::int64_t panel) {
    const std::int64_t num_vectors = std::min(kPanel, shape_.vectors - panel);
    const std::int64_t first_row = panel / block_.group_heads;
    const std::int64_t last_row = (panel + num_vectors - 1) / block_.group_heads;
    const std::int64_t size = tile.end - tile.begin;
    // Counted from the start of the tile: what the first and the last row see.
    const std::int64_t ahead = block_.first_position - tile.begin;
    const std::int64_t end_first = ahead + first_row + 1;
    const std::int64_t end = std::min(size, ahead + last_row + 1);
    const std::int64_t no_window = block_.first_position + block_.rows + 1;
    const std::int64_t window =
        block_.sliding_window == 0 ? no_window : std::min(no_window, block_.sliding_window);
    const std::int64_t begin = std::max<std::int64_t>(0, end_first - window);
    if (begin >= end) return;
    const bool all_seen = end <= end_first && ahead + last_row + 1 - window <= begin;

    float* scores = scores_ + begin * kPanel;
    const std::int64_t count = end - begin;
    TileProduct(count, shape_.head_dim, keys_ + begin * shape_.head_dim, shape_.head_dim,
                queries_ + panel * shape_.head_dim, kPanel, scores, kPanel, false);
    if (all_seen) {
      Softmax</*kAllSeen=*/true>(count, panel, num_vectors, scores);
    } else {
      Mask(begin - ahead, count, window, panel, scores);
      Softmax</*kAllSeen=*/false>(count, panel, num_vectors, scores);
    }
    for (std::int64_t j = 0; j < shape_.padded_dim; j += kPanel) {
      TileProduct<TileLeft::kColumns>(num_vectors, count, scores, kPanel,
                                      values_ + j * kTile + begin * kPanel, kPanel,
                                      state_.sums + panel * state_.stride + j, state_.stride, true);
    }
  }

  // Takes the scores of positions that a vector does not attend to away. `first`: the position of the first
  // score, counted from that of the block's first row.
  void Mask(std::int64_t first, std::int64_t count, std::int64_t window, std::int64_t panel,
            float* HWY_RESTRICT scores) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const WideFloats d;
    const auto nothing = hn::Set(d, kNothingYet);
    for (int v = 0; v < kTileVectors; ++v) {
      const auto rows = hn::LoadU(d, rows_ + panel + v * kTileLanes);
      for (std::int64_t p = 0; p < count; ++p) {
        float* HWY_RESTRICT at = scores + p * kPanel + v * kTileLanes;
        const auto passed = hn::Le(hn::Set(d, static_cast<float>(first + p)), rows);
        const auto near = hn::Gt(hn::Set(d, static_cast<float>(first + p + window)), rows);
        hn::StoreU(hn::IfThenElse(hn::And(passed, near), hn::LoadU(d, at), nothing), d, at);
      }
    }
  }

  // Turns scores [count, kPanel] into weights against the largest score of each vector so far.
  template <bool kAllSeen>
  void Softmax(std::int64_t count, std::int64_t panel, std::int64_t num_vectors, float* HWY_RESTRICT scores) {
    namespace hn = hwy::HWY_NAMESPACE;
    const WideFloats d;
    float factors[kPanel];
    bool any_larger = false;
    for (int v = 0; v < kTileVectors; ++v) {
      float* HWY_RESTRICT column = scores + v * kTileLanes;
      float* const largest_at = state_.largest + panel + v * kTileLanes;
      float* const total_at = state_.total + panel + v * kTileLanes;
      const auto old_largest = hn::LoadU(d, largest_at);
      auto largest = old_largest;
      for (std::int64_t p = 0; p < count; ++p) {
        largest = hn::Max(largest, hn::LoadU(d, column + p * kPanel));
      }
      const auto factor = Exp2UpTo126(d, hn::Sub(old_largest, largest));
      any_larger = any_larger || !hn::AllFalse(d, hn::Gt(largest, old_largest));
      auto total = hn::Mul(hn::LoadU(d, total_at), factor);
      for (std::int64_t p = 0; p < count; ++p) {
        const auto score = hn::LoadU(d, column + p * kPanel);
        auto weight = Exp2UpTo126(d, hn::Sub(score, largest));
        if constexpr (!kAllSeen)
          weight = hn::IfThenElseZero(hn::Gt(score, hn::Set(d, 0.5f * kNothingYet)), weight);
        total = hn::Add(total, weight);
        hn::StoreU(weight, d, column + p * kPanel);
      }
      hn::StoreU(largest, d, largest_at);
      hn::StoreU(total, d, total_at);
      hn::StoreU(factor, d, factors + v * kTileLanes);
    }
    if (!any_larger) return;
    for (std::int64_t i = 0; i < num_vectors; ++i) Rescale(panel + i, factors[i]);
  }

  void Rescale(std::int64_t vector, float factor) {
    namespace hn = hwy::HWY_NAMESPACE;
    if (factor == 1.0f) return;
    const WideFloats d;
    float* HWY_RESTRICT sums = state_.sums + vector * state_.stride;
    for (std::int64_t j = 0; j < shape_.padded_dim; j += kTileLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, sums + j), hn::Set(d, factor)), d, sums + j);
    }
  }

  const AttentionBlock& block_;
  const AttentionShape shape_;
  const AttentionState<float> state_;
  float* const scores_;   // [kTile, kPanel]: scores of a panel, then their weights
  float* const keys_;     // [kTile, head_dim]
  float* const values_;   // see Gather
  float* const queries_;  // [panels, head_dim, kPanel]
  float* const rows_;     // [padded_vectors]: the row of each vector, counted from the block's first
};

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCD_KERNELS_CPU_ATTENTION_PANELS_INL_H_
