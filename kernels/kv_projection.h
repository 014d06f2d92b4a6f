// The product that makes one layer's K and V from its normalised attention input, with the model's own weights.
// Shared by the transformer and by the rebuilding of Patch layers.
#ifndef SCD_KERNELS_KV_PROJECTION_H_
#define SCD_KERNELS_KV_PROJECTION_H_

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace scd {

struct KvProjection {
  const PackedWeight* k = nullptr;  // [d_kv, hidden] with its bias
  const PackedWeight* v = nullptr;  // [d_kv, hidden] with its bias
  ConstTensorView k_norm;           // [head_dim] f32, per-head RMSNorm of K; empty where the model has none
  float norm_epsilon = 0.0f;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
};

// attention_input [tokens, hidden] -> k_out (before RoPE, after k_norm) and v_out, both [tokens, d_kv].
absl::Status ProjectKv(Backend& backend, Stream& stream, const KvProjection& projection,
                       ConstTensorView attention_input, TensorView k_out, TensorView v_out);

}  // namespace scd

#endif  // SCD_KERNELS_KV_PROJECTION_H_
