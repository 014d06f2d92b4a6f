// How a kernel sees the KV cache of one layer of one sequence: pages of a pool and the table of its pages.
#ifndef SCD_KERNELS_PAGED_KV_H_
#define SCD_KERNELS_PAGED_KV_H_

#include "kernels/tensor_view.h"

namespace scd {

struct PagedKv {
  TensorView k_pages;  // [num_pages, kv_heads, page_tokens, head_dim] f32, bf16 or i8, after RoPE
  TensorView v_pages;  // the same shape and dtype
  // [pages of this sequence] i32, on the pages' device: position p lies in page block_table[p / page_tokens],
  // slot p % page_tokens.
  ConstTensorView block_table;
  // i8 pages only: number = scale * integer, one scale for each vector; [num_pages, kv_heads, page_tokens]
  // f32.
  TensorView k_scales = {};
  TensorView v_scales = {};
};

// The query rows of one sequence in an attention call.
struct AttentionSequence {
  std::int64_t query_begin = 0;  // first row of this sequence in q and out
  std::int64_t query_count = 0;  // number of rows, at least 1
  std::int64_t first_position =
      0;       // position of the first row; row i attends to positions 0..first_position+i
  PagedKv kv;  // holds K and V of every position attended to
};

}  // namespace scd

#endif  // SCD_KERNELS_PAGED_KV_H_
