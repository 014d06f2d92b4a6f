// Launchers of paged attention. Query rows of one KV head that share its K and V are "items": item m of a
// sequence is its query row m / group and head m % group of the group of heads.
#ifndef SCD_KERNELS_CUDA_ATTENTION_H_
#define SCD_KERNELS_CUDA_ATTENTION_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/bad_index.h"
#include "kernels/cuda/rows.h"
#include "kernels/dtype.h"

namespace scd::cuda {

inline constexpr int kMaxHeadDim = 256;
// As many fit into the arguments of a launch, which saves copying them to the device.
inline constexpr int kSequencesOfALaunch = 48;

// K and V of all pages of a pool: [num_pages, kv_heads, page_tokens, head_dim] each.
struct PagesIn {
  const void* k = nullptr;
  const void* v = nullptr;
  const float* k_scales = nullptr;  // i8 only: [num_pages, kv_heads, page_tokens]
  const float* v_scales = nullptr;
  DType dtype = DType::kF32;       // f32, bf16 or i8
  std::int64_t k_page_stride = 0;  // elements from one page to the next
  std::int64_t v_page_stride = 0;
  std::int64_t k_scale_stride = 0;
  std::int64_t v_scale_stride = 0;
  std::int64_t num_pages = 0;
  std::int64_t kv_heads = 0;
  std::int64_t page_tokens = 0;

  friend bool operator==(const PagesIn&, const PagesIn&) = default;
};

struct SequenceRows {
  const std::int32_t* block_table = nullptr;
  std::int64_t query_begin = 0;  // row of q and out
  std::int64_t first_position = 0;
  std::int64_t partial_begin = 0;  // where its partial results begin, in floats
  std::int32_t query_count = 0;
  // Positions are divided into parts of part_positions, each attended to by blocks of its own, whose results
  // are merged: few rows would keep few multiprocessors busy. 1: no merging.
  std::int32_t num_parts = 1;
  std::int32_t part_positions = 0;
};

struct AttentionLaunch {
  SequenceRows sequences[kSequencesOfALaunch] = {};
  int num_sequences = 0;
  PagesIn pages;
  Rows<const float> q;     // [rows, heads, head_dim], after RoPE
  Rows<float> out;         // the same
  std::int32_t group = 0;  // heads of one KV head
  std::int32_t head_dim = 0;
  float scale = 1.0f;
  std::int64_t window = 0;  // 0: none
  // Of each sequence with parts: [parts, kv_heads, items] of a maximum, a sum and head_dim numbers.
  float* partials = nullptr;
  BadIndexWord* bad = nullptr;
};

// Floats of `partials` that one sequence with `parts` parts takes.
inline std::int64_t PartialFloats(std::int64_t parts, std::int64_t kv_heads, std::int64_t items,
                                  std::int64_t head_dim) {
  return parts * kv_heads * items * (head_dim + 2);
}

// For sequences of few rows, and of many. Each takes both; they differ in speed.
cudaError_t LaunchDecodeAttention(cudaStream_t stream, const AttentionLaunch& launch);
cudaError_t LaunchPrefillAttention(cudaStream_t stream, const AttentionLaunch& launch);
// For many rows, on tensor cores: q, K, V and weights are rounded to bf16, all else is f32.
cudaError_t LaunchMmaAttention(cudaStream_t stream, const AttentionLaunch& launch);

// For the launchers: blocks of `tile_items` items, and merging what sequences with parts left behind.
dim3 AttentionGrid(const AttentionLaunch& launch, int tile_items);
cudaError_t LaunchAttentionMerge(cudaStream_t stream, const AttentionLaunch& launch);

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_ATTENTION_H_
