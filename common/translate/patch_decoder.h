// Codes of one Patch layer -> the consumer's K and V before RoPE, in as few products as the maps allow.
//
// The aligner ends linearly and the consumer's W_k and W_v are linear, so the two are folded into one map
// when the decoder is made:
//   H_B_hat = Z D^T + d + M_out silu(Z M_in^T + m_in) + m_out       (the bundle's aligner)
//   [K V]   = H_B_hat W^T + w = [Z | silu(Z M_in^T + m_in)] F^T + f
//   F = W [D | M_out],  f = W (d + m_out) + w
// which is the same function with a third fewer operations (at ranks of the order of the hidden size). k_norm
// follows.
#ifndef SCD_COMMON_TRANSLATE_PATCH_DECODER_H_
#define SCD_COMMON_TRANSLATE_PATCH_DECODER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bundle/bundle.h"
#include "kernels/backend.h"
#include "kernels/kv_projection.h"

namespace scd {

// Immutable.
class PatchDecoder {
 public:
  // `translator` and `projection` may go away afterwards, but for the projection's k_norm. `backend` outlives
  // this.
  static absl::StatusOr<std::unique_ptr<PatchDecoder>> Create(const PatchTranslator& translator,
                                                              const KvProjection& projection,
                                                              Backend& backend);

  // Columns of the memory that Decode works in: [tokens, work_width] f32.
  std::int64_t work_width() const { return work_width_; }

  // codes [tokens, rank] f32 -> k (before RoPE, after k_norm) and v, both [tokens, d_kv] f32, which may be
  // neighbouring columns of one tensor. All on the device.
  absl::Status Decode(Stream& stream, ConstTensorView codes, TensorView work, TensorView k,
                      TensorView v) const;

 private:
  PatchDecoder(const KvProjection& projection, Backend& backend)
      : k_norm_(projection.k_norm),
        norm_epsilon_(projection.norm_epsilon),
        head_dim_(projection.head_dim),
        backend_(backend) {}

  const ConstTensorView k_norm_;
  const float norm_epsilon_;
  const std::int64_t head_dim_;
  Backend& backend_;
  std::int64_t work_width_ = 0;
  std::unique_ptr<PackedWeight> mlp_in_;  // [mlp_width, rank], M_in
  std::unique_ptr<PackedWeight> folded_;  // [2 d_kv, rank + mlp_width], F: K above V
};

}  // namespace scd

#endif  // SCD_COMMON_TRANSLATE_PATCH_DECODER_H_
