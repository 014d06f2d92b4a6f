#include "producer/encoding_tap.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/model/code_rows.h"
#include "common/trace/code_detail.h"
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
  if (encoder_.encoder->plan().CodeComesLater(layer)) wanted = wanted | TapFor(CodeKind::kKV);
  return wanted;
}

absl::Status EncodingTap::OnLayer(const LayerView& view) {
  if (trace_ != nullptr) {
    trace_->AddSpan(TraceTrack::kPrefill, "compute", layer_begin_, RequestTrace::Clock::now(),
                    {.layer = view.layer,
                     .chunk = chunk_,
                     .first_token = chunk_begin_,
                     .tokens = chunk_end_ - chunk_begin_});
  }
  const std::int64_t first = std::max(chunk_begin_, first_token_);
  for (const SentKind& sent : Sent(view.layer)) {
    for (std::int64_t begin = first; begin < chunk_end_;) {
      const std::int64_t end = EndOfCode(encoder_.encoder->plan().codec, sent.kind, begin, chunk_end_);
      SCD_RETURN_IF_ERROR(Encode(view, sent.kind, begin, end));
      begin = end;
    }
  }
  if (encoder_.encoder->plan().CodeComesLater(view.layer)) {
    SCD_RETURN_IF_ERROR(encoder_.encoder->Keep(
        *encoder_.workspace, *view.stream, view.layer,
        RowsFor(CodeKind::kKV, view).rows(first - chunk_begin_, chunk_end_ - first), first));
  }
  layer_begin_ = RequestTrace::TimeFor(trace_);
  return absl::OkStatus();
}

absl::Status EncodingTap::Encode(const LayerView& view, CodeKind kind, std::int64_t begin, std::int64_t end) {
  const absl::Time start = absl::Now();
  const RequestTrace::Time traced_begin = RequestTrace::TimeFor(trace_);
  SCD_ASSIGN_OR_RETURN(
      LayerCode code,
      encoder_.encoder->Encode(*encoder_.workspace, *view.stream, view.layer, kind,
                               RowsFor(kind, view).rows(begin - chunk_begin_, end - begin), begin));
  encode_time_ += absl::Now() - start;
  if (trace_ != nullptr) {
    TraceDetail detail = DetailOf(code);
    detail.chunk = chunk_;
    trace_->AddSpan(TraceTrack::kEncode, "encode", traced_begin, RequestTrace::Clock::now(), detail);
  }
  emit_(std::move(code));
  return absl::OkStatus();
}

}  // namespace scd
