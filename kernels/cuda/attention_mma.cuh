// Attention of a tile of items (attention.h) on tensor cores: products in bf16 with f32 sums, kMmaKeys keys
// at a time, with the softmax kept up as it goes.
//
// A block is kMmaWarps warps that share tiles of K and V; each warp has 16 items of its own, whose sums stay
// in fragments. Scores go through shared memory, where two lanes have one item, and come back as weights in
// bf16 over the same bytes. Which numbers of a fragment a thread has is not specified, so each thread looks
// once in which rows its numbers are, to scale sums by item. Warps skip tiles that none of their items sees.
//
// Scores, their largest, weights before they are rounded and totals are f32. Totals add up the rounded
// weights, so that what rounding does to a weight cancels out where there is one.
#ifndef SCD_KERNELS_CUDA_ATTENTION_MMA_CUH_
#define SCD_KERNELS_CUDA_ATTENTION_MMA_CUH_

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_mma_load.cuh"
#include "kernels/cuda/attention_span.cuh"
#include "kernels/cuda/kv_load.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/warp.cuh"

namespace scd::cuda {

inline constexpr int kMmaSide = 16;
inline constexpr int kMmaWarps = 4;
inline constexpr int kMmaItems = kMmaWarps * kMmaSide;
inline constexpr int kMmaThreads = kMmaWarps * kWarpThreads;
inline constexpr int kMmaKeys = 32;
inline constexpr int kKeyTiles = kMmaKeys / kMmaSide;
// Rows of shared memory begin in different banks: numbers of a row of scores, and of weights over it.
inline constexpr int kScorePitch = kMmaKeys + 4;
inline constexpr int kWeightPitch = 2 * kScorePitch;
// Lanes of an item, and keys of each.
inline constexpr int kItemLanes = kWarpThreads / kMmaSide;
inline constexpr int kLaneKeys = kMmaKeys / kItemLanes;

using ItemsFragment = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, kMmaSide, kMmaSide, kMmaSide,
                                             __nv_bfloat16, nvcuda::wmma::row_major>;
using KeysFragment = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, kMmaSide, kMmaSide, kMmaSide,
                                            __nv_bfloat16, nvcuda::wmma::col_major>;
using ValuesFragment = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, kMmaSide, kMmaSide, kMmaSide,
                                              __nv_bfloat16, nvcuda::wmma::row_major>;
using SumsFragment = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kMmaSide, kMmaSide, kMmaSide, float>;

// Tiles of 16 numbers of a head.
inline __host__ __device__ int MmaColumns(int head_dim) {
  return (head_dim + kMmaSide - 1) / kMmaSide;
}

// Numbers of a row of queries, K or V in shared memory.
inline __host__ __device__ int MmaPitch(int head_dim) {
  return MmaColumns(head_dim) * kMmaSide + kEight;
}

inline std::size_t MmaBytes(int head_dim) {
  return sizeof(__nv_bfloat16) * static_cast<std::size_t>((kMmaItems + 2 * kMmaKeys) * MmaPitch(head_dim)) +
         sizeof(float) * static_cast<std::size_t>(kMmaItems * kScorePitch + kMmaItems + 2 * kMmaKeys);
}

// The rows of a fragment's numbers of this thread. `scratch`: 16 rows of the warp's scores, which are not
// written before the warp has met again.
__device__ inline void FindRows(float* scratch, int lane, int (&rows)[SumsFragment::num_elements]) {
  for (int i = lane; i < kMmaSide * kMmaSide; i += kWarpThreads) {
    scratch[i / kMmaSide * kScorePitch + i % kMmaSide] = static_cast<float>(i / kMmaSide);
  }
  __syncwarp();
  SumsFragment numbers;
  nvcuda::wmma::load_matrix_sync(numbers, scratch, kScorePitch, nvcuda::wmma::mem_row_major);
#pragma unroll
  for (int i = 0; i < SumsFragment::num_elements; ++i) rows[i] = static_cast<int>(numbers.x[i]);
}

// What the lanes of an item keep of its softmax.
struct Softmax {
  float largest;
  float total;
};

// This lane's scores of keys [first, ...) -> weights over the same row, and what the item's sums so far are
// to be multiplied by. All lanes of the warp; both lanes of an item answer the same.
__device__ inline float WeighScores(float* row, int half, float scale, const float* k_scales,
                                    const float* v_scales, std::int64_t first, const Positions& seen,
                                    Softmax& softmax) {
  constexpr float kLog2E = 1.4426950408889634f;
  float scores[kLaneKeys];
  float tile_largest = -INFINITY;
  const float4* fours = reinterpret_cast<const float4*>(row + half * kLaneKeys);
#pragma unroll
  for (int i = 0; i < kLaneKeys / 4; ++i) {
    const float4 four = fours[i];
    scores[4 * i] = four.x;
    scores[4 * i + 1] = four.y;
    scores[4 * i + 2] = four.z;
    scores[4 * i + 3] = four.w;
  }
#pragma unroll
  for (int i = 0; i < kLaneKeys; ++i) {
    const int key = half * kLaneKeys + i;
    const bool is_seen = first + key >= seen.begin && first + key < seen.end;
    scores[i] = is_seen ? scores[i] * (scale * k_scales[key]) : -INFINITY;
    tile_largest = fmaxf(tile_largest, scores[i]);
  }
  const float before = softmax.largest;
  softmax.largest = fmaxf(before, NeighbourMax<kItemLanes>(tile_largest));
  // Where nothing has been seen yet, sums are 0 and stay so.
  const float kept = before == softmax.largest ? 1.0f : exp2f((before - softmax.largest) * kLog2E);
  __syncwarp();  // every score was read
  float total = 0.0f;
  uint4* weights = reinterpret_cast<uint4*>(reinterpret_cast<__nv_bfloat16*>(row) + half * kLaneKeys);
#pragma unroll
  for (int i = 0; i < kLaneKeys / kEight; ++i) {
    unsigned int twos[kEight / 2];
#pragma unroll
    for (int j = 0; j < kEight / 2; ++j) {
      float two[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int key = kEight * i + 2 * j + c;
        const float exact = scores[key] == -INFINITY ? 0.0f : exp2f((scores[key] - softmax.largest) * kLog2E);
        const float weight = __bfloat162float(__float2bfloat16_rn(exact));
        total += weight;
        two[c] = weight * v_scales[half * kLaneKeys + key];
      }
      twos[j] = PackBf16(two[0], two[1]);
    }
    weights[i] = make_uint4(twos[0], twos[1], twos[2], twos[3]);
  }
  softmax.total = softmax.total * kept + NeighbourSum<kItemLanes>(total);
  return kept;
}

// Heads of up to kColumns * 16 numbers. Blocks of (kEight, kMmaThreads / kEight), blockIdx as SpanOfBlock.
template <int kColumns>
__global__ void __launch_bounds__(kMmaThreads)
    AttendMmaKernel(const __grid_constant__ AttentionLaunch launch) {
  const SequenceRows& sequence = launch.sequences[blockIdx.z];
  const TileSpan span = SpanOfBlock<kMmaItems>(launch, sequence);
  if (span.last_item < span.first_item) return;

  const int columns = MmaColumns(launch.head_dim);
  const int pitch = MmaPitch(launch.head_dim);
  __nv_bfloat16* const queries = DynamicShared<__nv_bfloat16>();
  __nv_bfloat16* const keys = queries + kMmaItems * pitch;
  __nv_bfloat16* const values = keys + kMmaKeys * pitch;
  float* const scores = reinterpret_cast<float*>(values + kMmaKeys * pitch);
  float* const factors = scores + kMmaItems * kScorePitch;
  float* const k_scales = factors + kMmaItems;
  float* const v_scales = k_scales + kMmaKeys;

  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  const int warp = thread / kWarpThreads;
  const int lane = thread % kWarpThreads;
  const int half = lane % kItemLanes;
  const int warp_row = warp * kMmaSide;              // of shared memory
  const int own_row = warp_row + lane / kItemLanes;  // this lane's item there
  float* const warp_scores = scores + warp_row * kScorePitch;

  for (int row = threadIdx.y; row < kMmaItems; row += blockDim.y) {
    const std::int64_t item = span.first_item + row;
    const float* query = QueryOf(launch, sequence, span, item);
    for (int d = threadIdx.x; d < columns * kMmaSide; d += blockDim.x) {
      const bool there = item <= span.last_item && d < launch.head_dim;
      queries[row * pitch + d] = __float2bfloat16_rn(there ? query[d] : 0.0f);
    }
  }

  const auto seen_by = [&](std::int64_t item) -> Positions {
    if (item > span.last_item) return {0, 0};
    const Positions seen = SeenByItem(launch, sequence, item);
    return {seen.begin, seen.end < span.seen.end ? seen.end : span.seen.end};
  };
  const std::int64_t own_item = span.first_item + own_row;
  const Positions own_seen = seen_by(own_item);
  // Of the warp's items: no more than the first begins, no less than the last ends.
  const std::int64_t warp_first = span.first_item + warp_row;
  const std::int64_t warp_last =
      warp_first + kMmaSide - 1 < span.last_item ? warp_first + kMmaSide - 1 : span.last_item;
  const Positions warp_seen = {seen_by(warp_first).begin,
                               warp_first <= warp_last ? seen_by(warp_last).end : 0};

  int rows[SumsFragment::num_elements];
  FindRows(warp_scores, lane, rows);
  Softmax softmax{-INFINITY, 0.0f};
  SumsFragment sums[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) nvcuda::wmma::fill_fragment(sums[c], 0.0f);

  for (std::int64_t first = span.seen.begin; first < span.seen.end; first += kMmaKeys) {
    const std::int64_t count = span.seen.end - first < kMmaKeys ? span.seen.end - first : kMmaKeys;
    __syncthreads();  // the last tiles are no longer read
    LoadKeys<kMmaKeys>(KPages(launch.pages), launch, sequence, span.kv_head, first, count, columns * kMmaSide,
                       pitch, keys, k_scales);
    LoadKeys<kMmaKeys>(VPages(launch.pages), launch, sequence, span.kv_head, first, count, columns * kMmaSide,
                       pitch, values, v_scales);
    __syncthreads();
    if (first >= warp_seen.end || first + count <= warp_seen.begin) continue;

    SumsFragment products[kKeyTiles];
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) nvcuda::wmma::fill_fragment(products[k], 0.0f);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (c >= columns) break;
      ItemsFragment items;
      nvcuda::wmma::load_matrix_sync(items, queries + warp_row * pitch + c * kMmaSide, pitch);
#pragma unroll
      for (int k = 0; k < kKeyTiles; ++k) {
        KeysFragment key_tile;
        nvcuda::wmma::load_matrix_sync(key_tile, keys + k * kMmaSide * pitch + c * kMmaSide, pitch);
        nvcuda::wmma::mma_sync(products[k], items, key_tile, products[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
      nvcuda::wmma::store_matrix_sync(warp_scores + k * kMmaSide, products[k], kScorePitch,
                                      nvcuda::wmma::mem_row_major);
    }
    __syncwarp();
    const float kept = WeighScores(scores + own_row * kScorePitch, half, launch.scale, k_scales, v_scales,
                                   first, own_seen, softmax);
    if (half == 0) factors[own_row] = kept;
    __syncwarp();
    float scale_of[SumsFragment::num_elements];
#pragma unroll
    for (int i = 0; i < SumsFragment::num_elements; ++i) scale_of[i] = factors[warp_row + rows[i]];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int i = 0; i < SumsFragment::num_elements; ++i) sums[c].x[i] *= scale_of[i];
    }
    const __nv_bfloat16* const weights = reinterpret_cast<const __nv_bfloat16*>(warp_scores);
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
      ItemsFragment item_weights;
      nvcuda::wmma::load_matrix_sync(item_weights, weights + k * kMmaSide, kWeightPitch);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (c >= columns) break;
        ValuesFragment value_tile;
        nvcuda::wmma::load_matrix_sync(value_tile, values + k * kMmaSide * pitch + c * kMmaSide, pitch);
        nvcuda::wmma::mma_sync(sums[c], item_weights, value_tile, sums[c]);
      }
    }
  }

  __syncwarp();  // the last weights and factors were read
  const bool merged = sequence.num_parts > 1;
  if (half == 0) {
    factors[own_row] = merged ? 1.0f : 1.0f / softmax.total;
    if (merged && own_item <= span.last_item) {
      StorePartTotals(SumsOf(launch, sequence, span, own_item), softmax.largest, softmax.total);
    }
  }
  // Two tiles at a time by way of the warp's scores, a row of 32 numbers by the lanes of the warp.
#pragma unroll
  for (int c = 0; c < kColumns; c += 2) {
    if (c >= columns) break;
    nvcuda::wmma::store_matrix_sync(warp_scores, sums[c], kScorePitch, nvcuda::wmma::mem_row_major);
    if (c + 1 < kColumns) {
      nvcuda::wmma::store_matrix_sync(warp_scores + kMmaSide, sums[c + 1], kScorePitch,
                                      nvcuda::wmma::mem_row_major);
    }
    __syncwarp();
    const int d = c * kMmaSide + lane;
    for (int row = 0; row < kMmaSide && warp_first + row <= span.last_item; ++row) {
      if (d >= launch.head_dim) break;
      SumsOf(launch, sequence, span, warp_first + row)[d] =
          warp_scores[row * kScorePitch + lane] * factors[warp_row + row];
    }
    __syncwarp();
  }
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_ATTENTION_MMA_CUH_
