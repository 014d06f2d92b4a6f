#include "kernels/cpu/attention_block.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "hwy/aligned_allocator.h"
#include "kernels/cpu/partition.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_block.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h, as they hold per-target code.
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/dot_tile-inl.h"
#include "kernels/cpu/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Positions in a tile.
constexpr std::int64_t kTile = 64;
static_assert(kTile % kTileColumns == 0);
// With fewer query vectors than this, turning K around costs more than dot products do.
constexpr std::int64_t kMinVectorsToTranspose = 8;
constexpr float kNothingYet = -std::numeric_limits<float>::infinity();

// The positions of a tile, and where the KV head's vectors of each run of them within a page lie.
class KvTile {
 public:
  KvTile(const PagedKv& kv, std::int64_t kv_head, std::int64_t begin, std::int64_t end)
      : kv_(kv), kv_head_(kv_head), begin_(begin), end_(end) {}

  std::int64_t begin() const { return begin_; }
  std::int64_t size() const { return end_ - begin_; }

  // visit(k, v, offset, count): count vectors from position begin() + offset, [count, head_dim] contiguous.
  template <typename Visitor>
  void ForEachRun(const Visitor& visit) const {
    const std::int64_t page_tokens = kv_.k_pages.dim(2);
    const std::int64_t head_dim = kv_.k_pages.dim(3);
    for (std::int64_t p = begin_; p < end_;) {
      const std::int64_t slot = p % page_tokens;
      const std::int64_t count = std::min(end_ - p, page_tokens - slot);
      const std::int64_t page = kv_.block_table.as<std::int32_t>()[p / page_tokens];
      const std::int64_t offset = (kv_head_ * page_tokens + slot) * head_dim;
      visit(kv_.k_pages.row<float>(page) + offset, kv_.v_pages.row<float>(page) + offset, p - begin_, count);
      p += count;
    }
  }

 private:
  const PagedKv& kv_;
  std::int64_t kv_head_;
  std::int64_t begin_;
  std::int64_t end_;
};

// The state of one block: its query vectors (row by row, the group's heads of a row beside each other) and
// what the tiles so far have added up to.
class BlockState {
 public:
  static std::size_t ScratchFloats(const AttentionBlock& block) {
    const std::int64_t vectors = block.rows * block.group_heads;
    const std::int64_t head_dim = block.kv->k_pages.dim(3);
    const std::int64_t padded = Partition::RoundUp(head_dim, kTileColumns);
    return static_cast<std::size_t>(vectors * (head_dim + kTile + padded + 2) + kTile * (head_dim + padded));
  }

  // scratch: ScratchFloats() zeros.
  BlockState(const AttentionBlock& block, float* scratch)
      : block_(block),
        vectors_(block.rows * block.group_heads),
        head_dim_(block.kv->k_pages.dim(3)),
        padded_(Partition::RoundUp(head_dim_, kTileColumns)),
        scores_(scratch),
        sums_(scores_ + vectors_ * kTile),
        values_(sums_ + vectors_ * padded_),
        keys_(values_ + kTile * padded_),
        queries_(keys_ + kTile * head_dim_),
        largest_(queries_ + vectors_ * head_dim_),
        total_(largest_ + vectors_) {
    for (std::int64_t i = 0; i < vectors_; ++i) {
      const float* q = block.q + i / block.group_heads * block.q_stride + i % block.group_heads * head_dim_;
      for (std::int64_t j = 0; j < head_dim_; ++j) queries_[i * head_dim_ + j] = q[j] * block.scale;
      largest_[i] = kNothingYet;
    }
  }

  void Add(const KvTile& tile) {
    if (vectors_ < kMinVectorsToTranspose) {
      ScoreByDots(tile);
    } else {
      ScoreByProduct(tile);
    }
    for (std::int64_t i = 0; i < vectors_; ++i) Softmax(tile, i);
    AddValues(tile);
  }

  void Finish() const {
    for (std::int64_t i = 0; i < vectors_; ++i) {
      float* out =
          block_.out + i / block_.group_heads * block_.out_stride + i % block_.group_heads * head_dim_;
      const float factor = 1.0f / total_[i];
      for (std::int64_t j = 0; j < head_dim_; ++j) out[j] = sums_[i * padded_ + j] * factor;
    }
  }

 private:
  void ScoreByDots(const KvTile& tile) {
    tile.ForEachRun([&](const float* k, const float*, std::int64_t offset, std::int64_t count) {
      for (std::int64_t p = 0; p < count; ++p) {
        std::int64_t i = 0;
        for (; i + 3 <= vectors_; i += 3) DotQueries<3>(i, k + p * head_dim_, offset + p);
        for (; i < vectors_; ++i) DotQueries<1>(i, k + p * head_dim_, offset + p);
      }
    });
  }

  template <int kCount>
  void DotQueries(std::int64_t first, const float* k, std::int64_t column) {
    float dots[kCount];
    DotTile<kCount, 1>(queries_ + first * head_dim_, head_dim_, k, head_dim_, head_dim_, dots);
    for (int i = 0; i < kCount; ++i) scores_[(first + i) * kTile + column] = dots[i];
  }

  void ScoreByProduct(const KvTile& tile) {
    tile.ForEachRun([&](const float* k, const float*, std::int64_t offset, std::int64_t count) {
      for (std::int64_t j = 0; j < head_dim_; ++j) {
        for (std::int64_t p = 0; p < count; ++p) keys_[j * kTile + offset + p] = k[p * head_dim_ + j];
      }
    });
    TileProduct(vectors_, kTile, head_dim_, queries_, head_dim_, keys_, kTile, scores_, kTile, false);
  }

  // Turns the scores of vector i into weights against the largest score so far.
  void Softmax(const KvTile& tile, std::int64_t i) {
    const hn::CappedTag<float, kTileColumns> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    float* HWY_RESTRICT scores = scores_ + i * kTile;
    const std::int64_t position = block_.first_position + i / block_.group_heads;
    const std::int64_t hidden =
        block_.sliding_window == 0 ? 0 : position - block_.sliding_window + 1 - tile.begin();
    const std::int64_t first = std::clamp<std::int64_t>(hidden, 0, tile.size());
    const std::int64_t last = std::clamp<std::int64_t>(position + 1 - tile.begin(), first, tile.size());
    if (first == last) {
      std::fill_n(scores, kTile, 0.0f);
      return;
    }
    std::fill(scores, scores + first, kNothingYet);
    std::fill(scores + last, scores + kTile, kNothingYet);
    auto largest = hn::Set(d, largest_[i]);
    for (std::int64_t p = 0; p < kTile; p += lanes) largest = hn::Max(largest, hn::Load(d, scores + p));
    const float new_largest = hn::GetLane(hn::MaxOfLanes(d, largest));
    if (new_largest > largest_[i]) {
      Rescale(i, std::exp(largest_[i] - new_largest));
      largest_[i] = new_largest;
    }
    const auto shift = hn::Set(d, new_largest);
    auto total = hn::Zero(d);
    for (std::int64_t p = 0; p < kTile; p += lanes) {
      const auto weight = hn::Exp(d, hn::Sub(hn::Load(d, scores + p), shift));
      total = hn::Add(total, weight);
      hn::Store(weight, d, scores + p);
    }
    total_[i] += hn::GetLane(hn::SumOfLanes(d, total));
  }

  void Rescale(std::int64_t i, float factor) {
    const hn::CappedTag<float, kTileColumns> d;
    const auto factors = hn::Set(d, factor);
    total_[i] *= factor;
    for (std::int64_t j = 0; j < padded_; j += static_cast<std::int64_t>(hn::Lanes(d))) {
      hn::Store(hn::Mul(hn::Load(d, sums_ + i * padded_ + j), factors), d, sums_ + i * padded_ + j);
    }
  }

  void AddValues(const KvTile& tile) {
    if (padded_ == head_dim_) {
      tile.ForEachRun([&](const float*, const float* v, std::int64_t offset, std::int64_t count) {
        TileProduct(vectors_, padded_, count, scores_ + offset, kTile, v, head_dim_, sums_, padded_, true);
      });
      return;
    }
    tile.ForEachRun([&](const float*, const float* v, std::int64_t offset, std::int64_t count) {
      for (std::int64_t p = 0; p < count; ++p) {
        std::copy_n(v + p * head_dim_, head_dim_, values_ + (offset + p) * padded_);
      }
    });
    TileProduct(vectors_, padded_, tile.size(), scores_, kTile, values_, padded_, sums_, padded_, true);
  }

  const AttentionBlock& block_;
  const std::int64_t vectors_;
  const std::int64_t head_dim_;
  const std::int64_t padded_;  // head_dim rounded up to whole tile columns
  float* scores_;              // [vectors, kTile]: scores of a tile, then their weights
  float* sums_;                // [vectors, padded]: weighted sums of V
  float* values_;              // [kTile, padded]: V of a tile where head_dim is not whole tile columns
  float* keys_;                // [head_dim, kTile]: K of a tile, turned around
  float* queries_;             // [vectors, head_dim], scaled
  float* largest_;             // [vectors]: largest score so far
  float* total_;               // [vectors]: sum of the weights so far
};

std::size_t ScratchFloats(const AttentionBlock& block) {
  return BlockState::ScratchFloats(block);
}

void Attend(const AttentionBlock& block, float* scratch) {
  BlockState state(block, scratch);
  const std::int64_t end = block.first_position + block.rows;
  const std::int64_t begin = block.sliding_window == 0
                                 ? 0
                                 : std::max<std::int64_t>(0, block.first_position - block.sliding_window + 1);
  for (std::int64_t p = begin; p < end; p += kTile) {
    state.Add(KvTile(*block.kv, block.kv_head, p, std::min(end, p + kTile)));
  }
  state.Finish();
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scd::cpu {

HWY_EXPORT(ScratchFloats);
HWY_EXPORT(Attend);

absl::Status AttendBlock(const AttentionBlock& block) {
  const std::size_t count = HWY_DYNAMIC_DISPATCH(ScratchFloats)(block);
  auto scratch = hwy::AllocateAligned<float>(count);
  if (scratch == nullptr) return absl::ResourceExhaustedError("no memory for a block of attention");
  std::fill_n(scratch.get(), count, 0.0f);
  HWY_DYNAMIC_DISPATCH(Attend)(block, scratch.get());
  return absl::OkStatus();
}

}  // namespace scd::cpu
#endif
