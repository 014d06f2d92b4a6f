// Attention of a tile of items (attention.h) over a part of a sequence's positions, kTileKeys at a time, with
// the softmax kept up as it goes: no [rows, positions] matrix is ever made.
//
// A block has kTileThreads threads in kRowThreads columns: thread (y, x) has items y * kItems .. + kItems -
// 1, of their scores the keys x and x + kRowThreads of a tile, and of their sums the numbers 4 (x +
// kRowThreads j) .. + 3, j < kFours. The threads of an item are neighbours in a warp. Shared memory holds, as
// rows of four numbers: the queries, a tile of K and then of V, and the weights of the tile's keys.
#ifndef SCD_KERNELS_CUDA_ATTENTION_TILE_CUH_
#define SCD_KERNELS_CUDA_ATTENTION_TILE_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_span.cuh"
#include "kernels/cuda/kv_load.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/warp.cuh"

namespace scd::cuda {

inline constexpr int kTileThreads = 128;
inline constexpr int kRowThreads = 16;
inline constexpr int kThreadRows = kTileThreads / kRowThreads;
inline constexpr int kTileKeys = 32;
inline constexpr int kKeysOfAThread = kTileKeys / kRowThreads;
// Fours of a row of weights: one more than there are keys, so that rows begin in different banks.
inline constexpr int kWeightFours = kTileKeys / 4 + 1;

inline __host__ __device__ int FoursOf(int head_dim) {
  return (head_dim + 3) / 4;
}

inline __host__ __device__ int TileFours(int head_dim) {
  return FoursOf(head_dim) + 1;  // one more for the banks
}

template <int kItems>
inline std::size_t TileBytes(int head_dim) {
  constexpr int kTileItems = kItems * kThreadRows;
  return sizeof(float4) *
         static_cast<std::size_t>((kTileItems + kTileKeys) * TileFours(head_dim) + kTileItems * kWeightFours);
}

__device__ inline void AddProduct(float4& sum, float factor, const float4& four) {
  sum.x += factor * four.x;
  sum.y += factor * four.y;
  sum.z += factor * four.z;
  sum.w += factor * four.w;
}

__device__ inline void Scale(float4& four, float factor) {
  four.x *= factor;
  four.y *= factor;
  four.z *= factor;
  four.w *= factor;
}

// All threads of the block: keys [first, first + count) of K or V into `tile`, 0 beyond them.
__device__ inline void LoadTile(const KvPages& part, const AttentionLaunch& launch,
                                const SequenceRows& sequence, std::int64_t kv_head, std::int64_t first,
                                std::int64_t count, float4* tile) {
  const int fours = FoursOf(launch.head_dim);
  const bool aligned = launch.head_dim % 4 == 0 && part.page_stride % 4 == 0 &&
                       reinterpret_cast<std::uintptr_t>(part.numbers) % 16 == 0;
  for (int key = threadIdx.y; key < kTileKeys; key += kThreadRows) {
    KvPlace place{0, 0.0f, false};
    if (key < count) {
      place = FindVector(part, launch.pages, sequence, kv_head, first + key, launch.head_dim, launch.bad);
    }
    for (int i = threadIdx.x; i < fours; i += kRowThreads) {
      tile[key * TileFours(launch.head_dim) + i] =
          place.found ? LoadFourOfVector(part, launch.pages.dtype, place, aligned, i * 4, launch.head_dim)
                      : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
  }
}

// blockIdx is (tile of items and part of positions, KV head, sequence).
template <int kItems, int kFours>
__global__ void __launch_bounds__(kTileThreads)
    AttendTileKernel(const __grid_constant__ AttentionLaunch launch) {
  constexpr int kTileItems = kItems * kThreadRows;
  const SequenceRows& sequence = launch.sequences[blockIdx.z];
  const TileSpan span = SpanOfBlock<kTileItems>(launch, sequence);
  if (span.last_item < span.first_item) return;

  const int fours = FoursOf(launch.head_dim);
  const int row_fours = TileFours(launch.head_dim);
  float4* queries = DynamicShared<float4>();
  float4* tile = queries + kTileItems * row_fours;
  float4* weights = tile + kTileKeys * row_fours;

  Positions ranges[kItems];  // empty where there is no such item
  float largest[kItems];
  float totals[kItems];
  float4 sums[kItems][kFours];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const std::int64_t item = span.first_item + threadIdx.y * kItems + i;
    ranges[i] = {0, 0};
    if (item <= span.last_item) ranges[i] = SeenByItem(launch, sequence, item);
    largest[i] = -INFINITY;
    totals[i] = 0.0f;
#pragma unroll
    for (int j = 0; j < kFours; ++j) sums[i][j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    // The queries, scaled, 0 beyond them. Threads of an item read only what they wrote together.
    const float* query = QueryOf(launch, sequence, span, item);
    float* to = reinterpret_cast<float*>(queries + (threadIdx.y * kItems + i) * row_fours);
    for (int d = threadIdx.x; d < fours * 4; d += kRowThreads) {
      to[d] = item <= span.last_item && d < launch.head_dim ? query[d] * launch.scale : 0.0f;
    }
  }

  const std::int64_t end = span.seen.end;
  for (std::int64_t first = span.seen.begin; first < end; first += kTileKeys) {
    const std::int64_t count = end - first < kTileKeys ? end - first : kTileKeys;
    __syncthreads();  // the last tile's V is no longer read
    LoadTile(KPages(launch.pages), launch, sequence, span.kv_head, first, count, tile);
    __syncthreads();

    float scores[kItems][kKeysOfAThread] = {};
    for (int d = 0; d < fours; ++d) {
      float4 keys[kKeysOfAThread];
#pragma unroll
      for (int k = 0; k < kKeysOfAThread; ++k)
        keys[k] = tile[(threadIdx.x + k * kRowThreads) * row_fours + d];
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const float4 query = queries[(threadIdx.y * kItems + i) * row_fours + d];
#pragma unroll
        for (int k = 0; k < kKeysOfAThread; ++k) {
          scores[i][k] +=
              query.x * keys[k].x + query.y * keys[k].y + query.z * keys[k].z + query.w * keys[k].w;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      float tile_largest = -INFINITY;
#pragma unroll
      for (int k = 0; k < kKeysOfAThread; ++k) {
        const std::int64_t position = first + threadIdx.x + k * kRowThreads;
        const bool seen = position >= ranges[i].begin && position < ranges[i].end && position < end;
        if (!seen) scores[i][k] = -INFINITY;
        tile_largest = fmaxf(tile_largest, scores[i][k]);
      }
      const float before = largest[i];
      largest[i] = fmaxf(before, NeighbourMax<kRowThreads>(tile_largest));
      // Where nothing has been seen yet, sums are 0 and stay so.
      const float kept = before == largest[i] ? 1.0f : expf(before - largest[i]);
      float total = 0.0f;
      float* row_weights = reinterpret_cast<float*>(weights + (threadIdx.y * kItems + i) * kWeightFours);
#pragma unroll
      for (int k = 0; k < kKeysOfAThread; ++k) {
        const float weight = scores[i][k] == -INFINITY ? 0.0f : expf(scores[i][k] - largest[i]);
        row_weights[threadIdx.x + k * kRowThreads] = weight;
        total += weight;
      }
      totals[i] = totals[i] * kept + NeighbourSum<kRowThreads>(total);
#pragma unroll
      for (int j = 0; j < kFours; ++j) Scale(sums[i][j], kept);
    }
    __syncthreads();  // K is no longer read
    LoadTile(VPages(launch.pages), launch, sequence, span.kv_head, first, count, tile);
    __syncthreads();
    for (int k = 0; k < kTileKeys / 4; ++k) {
      float4 factors[kItems];
#pragma unroll
      for (int i = 0; i < kItems; ++i) factors[i] = weights[(threadIdx.y * kItems + i) * kWeightFours + k];
#pragma unroll
      for (int j = 0; j < kFours; ++j) {
        const int d = threadIdx.x + j * kRowThreads;
        if (d >= fours) break;
        const float4* values = tile + 4 * k * row_fours + d;
        const float4 value0 = values[0];
        const float4 value1 = values[row_fours];
        const float4 value2 = values[2 * row_fours];
        const float4 value3 = values[3 * row_fours];
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          AddProduct(sums[i][j], factors[i].x, value0);
          AddProduct(sums[i][j], factors[i].y, value1);
          AddProduct(sums[i][j], factors[i].z, value2);
          AddProduct(sums[i][j], factors[i].w, value3);
        }
      }
    }
  }

#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const std::int64_t item = span.first_item + threadIdx.y * kItems + i;
    if (item > span.last_item) continue;
    float* to = SumsOf(launch, sequence, span, item);
    float factor = 1.0f;
    if (sequence.num_parts == 1) {
      factor = 1.0f / totals[i];
    } else if (threadIdx.x == 0) {
      StorePartTotals(to, largest[i], totals[i]);
    }
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
      const int d = 4 * (threadIdx.x + j * kRowThreads);
      const float four[4] = {sums[i][j].x, sums[i][j].y, sums[i][j].z, sums[i][j].w};
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (d + c < launch.head_dim) to[d + c] = four[c] * factor;
      }
    }
  }
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_ATTENTION_TILE_CUH_
