#include "producer/encoding_tap.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/model/code_rows.h"
#include "common/wire/payload_format.h"
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
  const std::int64_t begin = std::max(chunk_begin_, first_token_);
  for (const SentKind& sent : Sent(view.layer)) {
    // Granules end at multiples of their tokens, wherever codes begin: then stored blocks fit any request.
    const std::int64_t granule = GranuleTokens(encoder_.encoder->plan().codec, sent.kind);
    const std::int64_t cut = std::min(chunk_end_, (begin + granule - 1) / granule * granule);
    if (begin < cut) SCD_RETURN_IF_ERROR(Encode(view, sent.kind, begin, cut));
    if (cut < chunk_end_) SCD_RETURN_IF_ERROR(Encode(view, sent.kind, cut, chunk_end_));
  }
  return absl::OkStatus();
}

absl::Status EncodingTap::Encode(const LayerView& view, CodeKind kind, std::int64_t begin, std::int64_t end) {
  const absl::Time start = absl::Now();
  SCD_ASSIGN_OR_RETURN(
      LayerCode code,
      encoder_.encoder->Encode(*encoder_.workspace, *view.stream, view.layer, kind,
                               RowsFor(kind, view).rows(begin - chunk_begin_, end - begin), begin));
  encode_time_ += absl::Now() - start;
  emit_(std::move(code));
  return absl::OkStatus();
}

}  // namespace scd
