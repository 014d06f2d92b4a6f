// The shape and storage of KV pages.
#ifndef SCD_COMMON_CACHE_KV_LAYOUT_H_
#define SCD_COMMON_CACHE_KV_LAYOUT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/tensor_view.h"

namespace scd {

// A page holds K (after RoPE) and V of page_tokens positions for every layer.
struct KvLayout {
  std::int64_t num_layers = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t page_tokens = 32;
  DType dtype = DType::kF32;  // f32, bf16, or i8 with one f32 scale for each vector

  // INVALID_ARGUMENT naming the field: sizes positive, no product of them beyond 2^62, a dtype that kernels
  // attend over.
  absl::Status Validate() const;
  bool has_scales() const { return dtype == DType::kI8; }
  // Of one page over all layers, K and V, scales included.
  std::int64_t page_bytes() const;
};

}  // namespace scd

#endif  // SCD_COMMON_CACHE_KV_LAYOUT_H_
