// Attention of a block of query rows, for the query heads that share one KV head, on the calling thread.
#ifndef SCD_KERNELS_CPU_ATTENTION_BLOCK_H_
#define SCD_KERNELS_CPU_ATTENTION_BLOCK_H_

#include <cstdint>

#include "absl/status/status.h"
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
};

// Goes over the attended positions tile by tile with a running maximum and sum (online softmax), so that it
// needs memory for one tile only. RESOURCE_EXHAUSTED where that is not there.
absl::Status AttendBlock(const AttentionBlock& block);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_ATTENTION_BLOCK_H_
