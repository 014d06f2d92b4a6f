#include "kernels/kv_projection.h"

#include "kernels/status_macros.h"

namespace scd {

absl::Status ProjectKv(Backend& backend, Stream& stream, const KvProjection& projection,
                       ConstTensorView attention_input, TensorView k_out, TensorView v_out) {
  SCD_RETURN_IF_ERROR(backend.MatMul(stream, attention_input, *projection.k, k_out));
  SCD_RETURN_IF_ERROR(backend.MatMul(stream, attention_input, *projection.v, v_out));
  if (projection.k_norm.empty()) return absl::OkStatus();
  const TensorView heads = k_out.Reshaped({k_out.dim(0) * projection.num_kv_heads, projection.head_dim});
  return backend.RmsNorm(stream, heads, projection.k_norm, projection.norm_epsilon, heads);
}

}  // namespace scd
