#include "producer/encoding_tap.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/model/code_rows.h"
#include "kernels/status_macros.h"

namespace scd {

std::vector<SentKind> EncodingTap::Sent(std::int64_t layer) const {
  return SentKinds(encoder_.encoder->plan().layers[static_cast<std::size_t>(layer)]);
}

TapKinds EncodingTap::Wanted(std::int64_t layer) const {
  TapKinds wanted;
  if (chunk_end_ <= first_token_) return wanted;
  for (const SentKind& sent : Sent(layer)) wanted = wanted | TapFor(sent.kind);
  return wanted;
}

absl::Status EncodingTap::OnLayer(const LayerView& view) {
  for (const SentKind& sent : Sent(view.layer)) {
    SCD_RETURN_IF_ERROR(Encode(view, sent.kind, RowsFor(sent.kind, view)));
  }
  return absl::OkStatus();
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
