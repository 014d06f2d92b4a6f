// Launcher of the kernel that puts vectors of K or V into pages.
#ifndef SCD_KERNELS_CUDA_KV_STORE_H_
#define SCD_KERNELS_CUDA_KV_STORE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/bad_index.h"
#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/rows.h"
#include "kernels/dtype.h"

namespace scd::cuda {

// K or V of all pages of a pool: [num_pages, kv_heads, page_tokens, head_dim].
struct PagesOut {
  void* pages = nullptr;
  DType dtype = DType::kF32;     // f32, bf16 or i8
  std::int64_t page_stride = 0;  // elements from one page to the next
  float* scales = nullptr;       // i8 only: [num_pages, kv_heads, page_tokens]
  std::int64_t scale_stride = 0;
  std::int64_t num_pages = 0;
  std::int64_t kv_heads = 0;
  std::int64_t page_tokens = 0;
  std::int64_t head_dim = 0;
};

struct StoreVectors {
  Rows<const float> vectors = {};  // [tokens, kv_heads * head_dim], K before RoPE where `rope` is given
  std::int64_t tokens = 0;
  const float* bias = nullptr;              // [kv_heads * head_dim], added first; nullptr: none
  RopeRows rope = {};                       // cos.data == nullptr: vectors are not turned
  const std::int32_t* positions = nullptr;  // [tokens]
  const std::int32_t* block_table = nullptr;
  std::int64_t block_table_size = 0;
  IndexOperand positions_operand = IndexOperand::kWriteKvPositions;
  IndexOperand block_table_operand = IndexOperand::kWriteKvBlockTable;
};

cudaError_t LaunchStoreVectors(cudaStream_t stream, const StoreVectors& source, const PagesOut& pages,
                               BadIndexWord* bad);

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_KV_STORE_H_
