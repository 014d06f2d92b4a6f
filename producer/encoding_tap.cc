#include "producer/encoding_tap.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "kernels/status_macros.h"

namespace scd {

TapKinds EncodingTap::Wanted(std::int64_t layer) const {
  if (chunk_end_ <= first_token_) return {};
  const LayerRanks& ranks = encoder_.encoder->plan().layers[static_cast<std::size_t>(layer)];
  if (ranks.treatment == LayerTreatment::kPatch) return TapKind::kAttentionInput;
  return TapKind::kKPreRope | TapKind::kV;
}

absl::Status EncodingTap::OnLayer(const LayerView& view) {
  const LayerRanks& ranks = encoder_.encoder->plan().layers[static_cast<std::size_t>(view.layer)];
  if (ranks.treatment == LayerTreatment::kPatch) return Encode(view, CodeKind::kH, view.attention_input);
  SCD_RETURN_IF_ERROR(Encode(view, CodeKind::kK, view.k_pre_rope));
  return Encode(view, CodeKind::kV, view.v);
}

absl::Status EncodingTap::Encode(const LayerView& view, CodeKind kind, ConstTensorView rows) {
  const absl::Time start = absl::Now();
  const std::int64_t skipped = std::max<std::int64_t>(0, first_token_ - chunk_begin_);
  SCD_ASSIGN_OR_RETURN(
      LayerCode code,
      encoder_.encoder->Encode(*encoder_.workspace, *view.stream, view.layer, kind,
                               rows.rows(skipped, rows.dim(0) - skipped), chunk_begin_ + skipped));
  encode_time_ += absl::Now() - start;
  emit_(std::move(code));
  return absl::OkStatus();
}

}  // namespace scd
