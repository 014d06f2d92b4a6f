#include "kernels/cpu/attention_block.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "hwy/aligned_allocator.h"
#include "kernels/cpu/kv_tile.h"
#include "kernels/cpu/partition.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_block.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h, as they hold per-target code.
#include "kernels/cpu/dot_tile-inl.h"
#include "kernels/cpu/exp2-inl.h"
#include "kernels/cpu/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Positions in a tile, and query vectors that go through it together so that their scores stay close.
constexpr std::int64_t kTile = 128;
constexpr std::int64_t kStripVectors = 48;
static_assert(kTile % kTileColumns == 0);
// With fewer query vectors than this, turning K around costs more than dot products do.
constexpr std::int64_t kMinVectorsToTranspose = 8;
constexpr float kNothingYet = -std::numeric_limits<float>::infinity();

// The state of one block: its query vectors (row by row, the group's heads of a row beside each other) and
// what the tiles so far have added up to.
class BlockState {
 public:
  explicit BlockState(const AttentionBlock& block)
      : block_(block),
        vectors_(block.rows * block.group_heads),
        strip_rows_(std::max<std::int64_t>(1, kStripVectors / block.group_heads)),
        head_dim_(block.kv->k_pages.dim(3)),
        padded_(Partition::RoundUp(head_dim_, kTileColumns)),
        by_product_(vectors_ >= kMinVectorsToTranspose),
        gather_values_(by_product_ || padded_ != head_dim_) {}

  std::size_t scratch_floats() const {
    const std::int64_t tile = (by_product_ ? head_dim_ : 0) + (gather_values_ ? padded_ : 0);
    return static_cast<std::size_t>(vectors_ * (kTile + padded_ + head_dim_ + 2) + kTile * tile);
  }

  // scratch: scratch_floats() zeros, aligned.
  void Start(float* scratch) {
    scores_ = scratch;
    sums_ = scores_ + vectors_ * kTile;
    values_ = sums_ + vectors_ * padded_;
    keys_ = values_ + (gather_values_ ? kTile * padded_ : 0);
    queries_ = keys_ + (by_product_ ? kTile * head_dim_ : 0);
    largest_ = queries_ + vectors_ * head_dim_;
    total_ = largest_ + vectors_;
    // Weights are powers of two, not of e.
    const float scale = block_.scale * kLog2E;
    for (std::int64_t i = 0; i < vectors_; ++i) {
      const float* q = block_.q + VectorOffset(i, block_.q_stride);
      for (std::int64_t j = 0; j < head_dim_; ++j) queries_[i * head_dim_ + j] = q[j] * scale;
      largest_[i] = kNothingYet;
    }
  }

  void Add(const KvTile& tile) {
    if (by_product_) GatherKeys(tile);
    if (gather_values_) GatherValues(tile);
    for (std::int64_t row = 0; row < block_.rows; row += strip_rows_) {
      const std::int64_t end_row = std::min(block_.rows, row + strip_rows_);
      // Positions of the tile that some row of the strip attends to.
      const std::int64_t visible = std::min(tile.size(), EndVisible(tile, end_row - 1));
      if (visible <= 0 || FirstVisible(tile, row) >= tile.size()) continue;
      const Strip strip{row * block_.group_heads, end_row * block_.group_heads, visible};
      if (by_product_) {
        ScoreByProduct(strip);
      } else {
        ScoreByDots(tile, strip);
      }
      for (std::int64_t i = strip.begin; i < strip.end; ++i) Softmax(tile, i, visible);
      if (gather_values_) {
        AddValues(strip, 0, visible, values_, padded_);
      } else {
        tile.ForEachRun(visible, [&](const float*, const float* v, std::int64_t offset, std::int64_t count) {
          AddValues(strip, offset, count, v, head_dim_);
        });
      }
    }
  }

  void Finish() const {
    for (std::int64_t i = 0; i < vectors_; ++i) {
      float* out = block_.out + VectorOffset(i, block_.out_stride);
      const float factor = 1.0f / total_[i];
      for (std::int64_t j = 0; j < head_dim_; ++j) out[j] = sums_[i * padded_ + j] * factor;
    }
  }

 private:
  // Vectors [begin, end) and how many positions of the tile they need.
  struct Strip {
    std::int64_t begin;
    std::int64_t end;
    std::int64_t visible;
  };

  // Where vector i lies in q or out.
  std::int64_t VectorOffset(std::int64_t i, std::int64_t row_stride) const {
    return i / block_.group_heads * row_stride + i % block_.group_heads * head_dim_;
  }

  // A row attends to positions [first, end), counted from the start of the tile; both may lie outside it.
  std::int64_t FirstVisible(const KvTile& tile, std::int64_t row) const {
    if (block_.sliding_window == 0) return 0;
    return block_.first_position + row - block_.sliding_window + 1 - tile.begin();
  }
  std::int64_t EndVisible(const KvTile& tile, std::int64_t row) const {
    return block_.first_position + row + 1 - tile.begin();
  }

  void GatherKeys(const KvTile& tile) {
    tile.ForEachRun(tile.size(), [&](const float* k, const float*, std::int64_t offset, std::int64_t count) {
      for (std::int64_t j = 0; j < head_dim_; ++j) {
        for (std::int64_t p = 0; p < count; ++p) keys_[j * kTile + offset + p] = k[p * head_dim_ + j];
      }
    });
  }

  void GatherValues(const KvTile& tile) {
    tile.ForEachRun(tile.size(), [&](const float*, const float* v, std::int64_t offset, std::int64_t count) {
      for (std::int64_t p = 0; p < count; ++p) {
        std::copy_n(v + p * head_dim_, head_dim_, values_ + (offset + p) * padded_);
      }
    });
  }

  void ScoreByProduct(const Strip& strip) {
    TileProduct(strip.end - strip.begin, Partition::RoundUp(strip.visible, kTileColumns), head_dim_,
                queries_ + strip.begin * head_dim_, head_dim_, keys_, kTile, scores_ + strip.begin * kTile,
                kTile, false);
  }

  // While K is multiplied, memory is asked for V of the same positions, which is next.
  void ScoreByDots(const KvTile& tile, const Strip& strip) {
    tile.ForEachRun(
        strip.visible, [&](const float* k, const float* v, std::int64_t offset, std::int64_t count) {
          std::int64_t p = 0;
          for (; p + 4 <= count; p += 4) {
            const auto* next = reinterpret_cast<const std::byte*>(v + p * head_dim_);
            ScoreFourKeys(strip, k + p * head_dim_, offset + p, {next, 2 * kCacheLineBytes});
          }
          for (; p < count; ++p) {
            for (std::int64_t i = strip.begin; i < strip.end; ++i) {
              scores_[i * kTile + offset + p] = Dot(queries_ + i * head_dim_, k + p * head_dim_, head_dim_);
            }
          }
        });
  }

  void ScoreFourKeys(const Strip& strip, const float* k, std::int64_t column, Ahead ahead) {
    std::int64_t i = strip.begin;
    if (strip.end - i >= 3) {
      DotQueries<3, 2>(i, k, column, ahead);
      i += 3;
    } else {
      DotQueries<1, 2>(i, k, column, ahead);
      i += 1;
    }
    for (; strip.end - i >= 3; i += 3) DotQueries<3, 0>(i, k, column, ahead);
    for (; i < strip.end; ++i) DotQueries<1, 0>(i, k, column, ahead);
  }

  // kCount queries with four keys.
  template <int kCount, int kLinesAhead>
  void DotQueries(std::int64_t first, const float* k, std::int64_t column, Ahead ahead) {
    float dots[kCount][4];
    DotTile<kCount, kLinesAhead>(queries_ + first * head_dim_, head_dim_, k, head_dim_, head_dim_, dots,
                                 ahead);
    for (int i = 0; i < kCount; ++i) std::copy_n(dots[i], 4, scores_ + (first + i) * kTile + column);
  }

  // Turns the scores of vector i into weights against the largest score so far.
  void Softmax(const KvTile& tile, std::int64_t i, std::int64_t visible) {
    const TileFloats d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    float* HWY_RESTRICT scores = scores_ + i * kTile;
    const std::int64_t padded_visible = Partition::RoundUp(visible, kTileColumns);
    const std::int64_t row = i / block_.group_heads;
    const std::int64_t first = std::clamp<std::int64_t>(FirstVisible(tile, row), 0, visible);
    const std::int64_t end = std::clamp<std::int64_t>(EndVisible(tile, row), first, visible);
    if (first == end) {
      std::fill_n(scores, padded_visible, 0.0f);
      return;
    }
    std::fill(scores, scores + first, kNothingYet);
    std::fill(scores + end, scores + padded_visible, kNothingYet);
    auto largest = hn::Set(d, largest_[i]);
    for (std::int64_t p = 0; p < padded_visible; p += lanes)
      largest = hn::Max(largest, hn::Load(d, scores + p));
    const float new_largest = hn::GetLane(hn::MaxOfLanes(d, largest));
    if (new_largest > largest_[i]) {
      Rescale(i, std::exp2(largest_[i] - new_largest));
      largest_[i] = new_largest;
    }
    const auto shift = hn::Set(d, new_largest);
    auto total = hn::Zero(d);
    for (std::int64_t p = 0; p < padded_visible; p += lanes) {
      const auto weight = Exp2(d, hn::Sub(hn::Load(d, scores + p), shift));
      total = hn::Add(total, weight);
      hn::Store(weight, d, scores + p);
    }
    total_[i] += hn::GetLane(hn::SumOfLanes(d, total));
  }

  void Rescale(std::int64_t i, float factor) {
    const TileFloats d;
    const auto factors = hn::Set(d, factor);
    total_[i] *= factor;
    for (std::int64_t j = 0; j < padded_; j += static_cast<std::int64_t>(hn::Lanes(d))) {
      hn::Store(hn::Mul(hn::Load(d, sums_ + i * padded_ + j), factors), d, sums_ + i * padded_ + j);
    }
  }

  // Adds `count` positions of a tile from `offset`, whose V is at v.
  void AddValues(const Strip& strip, std::int64_t offset, std::int64_t count, const float* v,
                 std::int64_t v_stride) {
    TileProduct(strip.end - strip.begin, padded_, count, scores_ + strip.begin * kTile + offset, kTile, v,
                v_stride, sums_ + strip.begin * padded_, padded_, true);
  }

  const AttentionBlock& block_;
  const std::int64_t vectors_;
  const std::int64_t strip_rows_;
  const std::int64_t head_dim_;
  const std::int64_t padded_;  // head_dim rounded up to whole tile columns
  const bool by_product_;      // scores by a product with K turned around, not by dot products
  const bool gather_values_;
  float* scores_ = nullptr;   // [vectors, kTile]: scores of a tile, then their weights
  float* sums_ = nullptr;     // [vectors, padded]: weighted sums of V
  float* values_ = nullptr;   // [kTile, padded]: V of a tile, where it is gathered
  float* keys_ = nullptr;     // [head_dim, kTile]: K of a tile, turned around, where scores are a product
  float* queries_ = nullptr;  // [vectors, head_dim], scaled
  float* largest_ = nullptr;  // [vectors]: largest score so far
  float* total_ = nullptr;    // [vectors]: sum of the weights so far
};

absl::Status Attend(const AttentionBlock& block) {
  BlockState state(block);
  auto scratch = hwy::AllocateAligned<float>(state.scratch_floats());
  if (scratch == nullptr) return absl::ResourceExhaustedError("no memory for a block of attention");
  std::fill_n(scratch.get(), state.scratch_floats(), 0.0f);
  state.Start(scratch.get());
  const std::int64_t end = block.first_position + block.rows;
  const std::int64_t begin = block.sliding_window == 0
                                 ? 0
                                 : std::max<std::int64_t>(0, block.first_position - block.sliding_window + 1);
  for (std::int64_t p = begin; p < end; p += kTile) {
    state.Add(KvTile(*block.kv, block.kv_head, p, std::min(end, p + kTile)));
  }
  state.Finish();
  return absl::OkStatus();
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scd::cpu {

HWY_EXPORT(Attend);

absl::Status AttendBlock(const AttentionBlock& block) {
  return HWY_DYNAMIC_DISPATCH(Attend)(block);
}

}  // namespace scd::cpu
#endif
