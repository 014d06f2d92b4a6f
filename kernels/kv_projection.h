// The product that makes one layer's K and V from its normalised attention input, with the model's own
// weights. Shared by the transformer and by the rebuilding of Patch layers.
#ifndef SCD_KERNELS_KV_PROJECTION_H_
#define SCD_KERNELS_KV_PROJECTION_H_

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/weight_part.h"

namespace scd {

struct KvProjection {
  WeightPart k;            // [d_kv, hidden] with its bias
  WeightPart v;            // the same; packed together with k, right behind it, both are one product
  ConstTensorView k_norm;  // [head_dim] f32, per-head RMSNorm of K; empty where the model has none
  float norm_epsilon = 0.0f;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
};

// attention_input [tokens, hidden] -> k_out (before RoPE, after k_norm) and v_out, both [tokens, d_kv],
// which may be neighbouring columns of one tensor.
absl::Status ProjectKv(Backend& backend, Stream& stream, const KvProjection& projection,
                       ConstTensorView attention_input, TensorView k_out, TensorView v_out);

// RMSNorm of each head of rows [tokens, heads * head_dim] in place; rows may be strided. weight [head_dim];
// an empty one does nothing.
absl::Status NormHeads(Backend& backend, Stream& stream, const TensorView& rows, std::int64_t head_dim,
                       const ConstTensorView& weight, float epsilon);

}  // namespace scd

#endif  // SCD_KERNELS_KV_PROJECTION_H_
