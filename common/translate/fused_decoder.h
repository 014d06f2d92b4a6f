// Codes of one Fused layer -> the consumer's K and V before RoPE:
//   [K V] = [Z | silu([z_t z_t-1 ...] M_in^T + m_in)] [D | M_out]^T + (d + m_out)
// with the tensors of the bundle's FusedTranslator. K comes as the cache wants it, after any k_norm.
#ifndef SCD_COMMON_TRANSLATE_FUSED_DECODER_H_
#define SCD_COMMON_TRANSLATE_FUSED_DECODER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bundle/bundle.h"
#include "kernels/backend.h"

namespace scd {

// Immutable.
class FusedDecoder {
 public:
  // `translator`, which has a residual network, may go away afterwards; `backend` outlives this.
  static absl::StatusOr<std::unique_ptr<FusedDecoder>> Create(const FusedTranslator& translator,
                                                              Backend& backend);

  // Columns of the memory that Decode works in: [tokens, work_width] f32.
  std::int64_t work_width() const { return window_ * rank_ + mlp_width_; }

  // codes [tokens, rank] f32, from the first token of a granule on -> k (before RoPE) and v, both
  // [tokens, d_kv] f32, which may be neighbouring columns of one tensor. All on the device.
  absl::Status Decode(Stream& stream, ConstTensorView codes, TensorView work, TensorView k,
                      TensorView v) const;

 private:
  explicit FusedDecoder(Backend& backend) : backend_(backend) {}

  // work's first window rank columns <- the codes of each token and of those before it, oldest first.
  absl::Status FillWindow(Stream& stream, const ConstTensorView& codes, const TensorView& work) const;

  Backend& backend_;
  std::int64_t rank_ = 0;
  std::int64_t window_ = 0;
  std::int64_t mlp_width_ = 0;
  std::unique_ptr<PackedWeight> mlp_in_;  // [mlp_width, window rank], columns of the oldest token first
  std::unique_ptr<PackedWeight> out_;     // [2 d_kv, rank + mlp_width], [D | M_out]: K above V
  std::unique_ptr<Buffer> zeros_;         // [window - 1, rank] f32 on the device; null where the window is 1
};

}  // namespace scd

#endif  // SCD_COMMON_TRANSLATE_FUSED_DECODER_H_
