// Reading K and V of a sequence from its pages, four numbers at a time.
#ifndef SCD_KERNELS_CUDA_KV_LOAD_CUH_
#define SCD_KERNELS_CUDA_KV_LOAD_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/bad_index.cuh"
#include "kernels/cuda/numbers.cuh"

namespace scd::cuda {

// One of the two parts of PagesIn.
struct KvPages {
  const void* numbers;
  const float* scales;
  std::int64_t page_stride;
  std::int64_t scale_stride;
};

__device__ inline KvPages KPages(const PagesIn& pages) {
  return {pages.k, pages.k_scales, pages.k_page_stride, pages.k_scale_stride};
}

__device__ inline KvPages VPages(const PagesIn& pages) {
  return {pages.v, pages.v_scales, pages.v_page_stride, pages.v_scale_stride};
}

// Numbers [first, first + 4) of `numbers`, which are there and aligned as four.
__device__ inline float4 LoadFour(const void* numbers, DType dtype, std::int64_t first) {
  const std::int64_t four = first / 4;
  if (dtype == DType::kBF16) {
    const uint2 bits = static_cast<const uint2*>(numbers)[four];
    return make_float4(Bf16BitsToFloat(bits.x & 0xffffu), Bf16BitsToFloat(bits.x >> 16),
                       Bf16BitsToFloat(bits.y & 0xffffu), Bf16BitsToFloat(bits.y >> 16));
  }
  if (dtype == DType::kI8) {
    const unsigned int word = static_cast<const unsigned int*>(numbers)[four];
    return make_float4(SignedByte(word, 0), SignedByte(word, 1), SignedByte(word, 2), SignedByte(word, 3));
  }
  return static_cast<const float4*>(numbers)[four];
}

__device__ inline float LoadOne(const void* numbers, DType dtype, std::int64_t i) {
  if (dtype == DType::kI8) return static_cast<float>(static_cast<const signed char*>(numbers)[i]);
  return LoadNumber(numbers, dtype, i);
}

// Where the vector of one position and KV head is kept; not found: its page is none of the pool, and *bad
// says so.
struct KvPlace {
  std::int64_t first;  // element of its pages
  float scale;
  bool found;
};

__device__ inline KvPlace FindVector(const KvPages& part, const PagesIn& pages, const SequenceRows& sequence,
                                     std::int64_t kv_head, std::int64_t position, std::int64_t head_dim,
                                     BadIndexWord* bad) {
  const std::int64_t entry = position / pages.page_tokens;
  const std::int32_t page = sequence.block_table[entry];
  if (!CheckIndex(page, pages.num_pages, IndexOperand::kAttentionBlockTable, entry, bad))
    return {0, 0.0f, false};
  const std::int64_t slot = kv_head * pages.page_tokens + position % pages.page_tokens;
  const float scale = part.scales == nullptr ? 1.0f : part.scales[page * part.scale_stride + slot];
  return {page * part.page_stride + slot * head_dim, scale, true};
}

// Numbers [at, at + 4) of the vector; those from head_dim on are 0.
__device__ inline float4 LoadFourOfVector(const KvPages& part, DType dtype, const KvPlace& place,
                                          bool aligned, std::int64_t at, std::int64_t head_dim) {
  float4 four;
  if (aligned) {
    four = LoadFour(part.numbers, dtype, place.first + at);
  } else {
    const auto one = [&](std::int64_t i) {
      return i < head_dim ? LoadOne(part.numbers, dtype, place.first + i) : 0.0f;
    };
    four = make_float4(one(at), one(at + 1), one(at + 2), one(at + 3));
  }
  four.x *= place.scale;
  four.y *= place.scale;
  four.z *= place.scale;
  four.w *= place.scale;
  return four;
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_KV_LOAD_CUH_
