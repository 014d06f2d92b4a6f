// What a block of an attention kernel works on: a tile of items (attention.h) and the positions they see, and
// where its results go.
#ifndef SCD_KERNELS_CUDA_ATTENTION_SPAN_CUH_
#define SCD_KERNELS_CUDA_ATTENTION_SPAN_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention.h"

namespace scd::cuda {

// Positions [begin, end).
struct Positions {
  std::int64_t begin;
  std::int64_t end;
};

struct TileSpan {
  std::int64_t items;       // of the sequence; item 0 is its first row's first head
  std::int64_t first_item;  // of the tile
  std::int64_t last_item;   // before first_item where the block has nothing to do
  std::int64_t kv_head;
  std::int64_t part;
  Positions seen;  // by any item of the tile, in this part
};

__device__ inline Positions SeenFrom(const AttentionLaunch& launch, std::int64_t position) {
  const bool cut = launch.window > 0 && position >= launch.window;
  return {cut ? position - launch.window + 1 : 0, position + 1};
}

// What one item sees.
__device__ inline Positions SeenByItem(const AttentionLaunch& launch, const SequenceRows& sequence,
                                       std::int64_t item) {
  return SeenFrom(launch, sequence.first_position + item / launch.group);
}

// blockIdx is (tile of items and part of positions, KV head, sequence).
template <int kTileItems>
__device__ inline TileSpan SpanOfBlock(const AttentionLaunch& launch, const SequenceRows& sequence) {
  TileSpan span;
  span.items = static_cast<std::int64_t>(sequence.query_count) * launch.group;
  span.kv_head = blockIdx.y;
  const std::int64_t tiles = (span.items + kTileItems - 1) / kTileItems;
  span.first_item = blockIdx.x % tiles * kTileItems;
  span.part = blockIdx.x / tiles;
  if (span.part >= sequence.num_parts) {
    span.last_item = span.first_item - 1;
    return span;
  }
  const std::int64_t after = span.first_item + kTileItems;
  span.last_item = (after < span.items ? after : span.items) - 1;
  span.seen = {SeenByItem(launch, sequence, span.first_item).begin,
               SeenByItem(launch, sequence, span.last_item).end};
  if (sequence.num_parts > 1) {
    // Parts are counted from the first position that any row of the sequence sees.
    const std::int64_t part_begin =
        SeenFrom(launch, sequence.first_position).begin + span.part * sequence.part_positions;
    const std::int64_t part_end = part_begin + sequence.part_positions;
    if (span.seen.begin < part_begin) span.seen.begin = part_begin;
    if (span.seen.end > part_end) span.seen.end = part_end;
  }
  return span;
}

// The query of an item: head_dim numbers.
__device__ inline const float* QueryOf(const AttentionLaunch& launch, const SequenceRows& sequence,
                                       const TileSpan& span, std::int64_t item) {
  return launch.q.data + (sequence.query_begin + item / launch.group) * launch.q.stride +
         (span.kv_head * launch.group + item % launch.group) * launch.head_dim;
}

// Where an item's sums go: [head_dim], over `total` already where there is one part; else before them the
// largest score and the total.
__device__ inline float* SumsOf(const AttentionLaunch& launch, const SequenceRows& sequence,
                                const TileSpan& span, std::int64_t item) {
  if (sequence.num_parts > 1) {
    const std::int64_t row = (span.part * launch.pages.kv_heads + span.kv_head) * span.items + item;
    return launch.partials + sequence.partial_begin + row * (launch.head_dim + 2) + 2;
  }
  return launch.out.data + (sequence.query_begin + item / launch.group) * launch.out.stride +
         (span.kv_head * launch.group + item % launch.group) * launch.head_dim;
}

// Of an item with parts: what MergePartsKernel needs besides the sums.
__device__ inline void StorePartTotals(float* sums, float largest, float total) {
  sums[-2] = largest;
  sums[-1] = total;
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_ATTENTION_SPAN_CUH_
