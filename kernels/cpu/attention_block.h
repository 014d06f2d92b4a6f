// Attention of a block of query rows, for the query heads that share one KV head, over a stretch of
// positions, on the calling thread. Stretches of one block may be computed side by side and then joined.
//
// A block goes over its positions tile by tile with a running maximum and sum (online softmax), so that it
// needs memory for one tile only.
#ifndef SCD_KERNELS_CPU_ATTENTION_BLOCK_H_
#define SCD_KERNELS_CPU_ATTENTION_BLOCK_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/partition.h"
#include "kernels/paged_kv.h"

namespace scd::cpu {

struct AttentionBlock {
  const float* q;           // first row of the block, first head of the group
  std::int64_t q_stride;    // distance of rows
  float* out;               // the same place in the result
  std::int64_t out_stride;  // distance of rows
  std::int64_t rows;
  std::int64_t group_heads;     // heads that share the KV head, beside each other
  std::int64_t first_position;  // of the first row
  std::int64_t sliding_window;  // 0: none
  float scale;
  std::int64_t kv_head;
  const PagedKv* kv;

  // Query vectors: row by row, the group's heads of a row beside each other.
  std::int64_t vectors() const { return rows * group_heads; }
  // The positions that some row attends to.
  Range positions() const;
  // Few vectors are multiplied with K as it lies in the pages; many share a tile of it as f32 in cache.
  bool has_few_vectors() const { return vectors() < 8; }
};

// Sizes of the memory for the functions below, in floats.
std::size_t AttentionStateFloats(const AttentionBlock& block);
std::size_t AttentionScratchFloats(const AttentionBlock& block);

// Attends to `positions`, part of block.positions(); what they add up to goes to `state`. Both memories are
// aligned as AllocateAligned does and need no initial value.
void AttendStretch(const AttentionBlock& block, Range positions, float* state, float* scratch);

// Writes the block's result, joined from `count` states, `stride` floats apart, of stretches that together
// are its positions.
void JoinStretches(const AttentionBlock& block, const float* states, std::int64_t stride, std::int64_t count);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_ATTENTION_BLOCK_H_
