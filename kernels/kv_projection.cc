#include "kernels/kv_projection.h"

#include "kernels/status_macros.h"

namespace scd {

absl::Status ProjectKv(Backend& backend, Stream& stream, const KvProjection& projection,
                       ConstTensorView attention_input, TensorView k_out, TensorView v_out) {
  SCD_RETURN_IF_ERROR(
      MultiplyParts(backend, stream, attention_input, projection.k, k_out, projection.v, v_out));
  return NormHeads(backend, stream, k_out, projection.head_dim, projection.k_norm, projection.norm_epsilon);
}

absl::Status NormHeads(Backend& backend, Stream& stream, const TensorView& rows, std::int64_t head_dim,
                       const ConstTensorView& weight, float epsilon) {
  if (weight.empty()) return absl::OkStatus();
  const std::int64_t num_heads = rows.dim(1) / head_dim;
  if (rows.contiguous()) {
    const TensorView heads = rows.Reshaped({rows.dim(0) * num_heads, head_dim});
    return backend.RmsNorm(stream, heads, weight, epsilon, heads);
  }
  for (std::int64_t h = 0; h < num_heads; ++h) {
    const TensorView head = rows.columns(h * head_dim, head_dim);
    SCD_RETURN_IF_ERROR(backend.RmsNorm(stream, head, weight, epsilon, head));
  }
  return absl::OkStatus();
}

}  // namespace scd
