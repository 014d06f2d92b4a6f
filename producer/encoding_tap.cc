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
  // A layer that sends nothing is still the occasion to emit what is pending.
  if (!pending_.empty()) wanted = wanted | TapKind::kResidual;
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
      SCD_RETURN_IF_ERROR(Begin(view, sent.kind, begin, end));
      begin = end;
    }
  }
  if (encoder_.encoder->plan().CodeComesLater(view.layer)) {
    SCD_RETURN_IF_ERROR(encoder_.encoder->Keep(
        *encoder_.workspace, *view.stream, view.layer,
        RowsFor(CodeKind::kKV, view).rows(first - chunk_begin_, chunk_end_ - first), first));
  }
  SCD_RETURN_IF_ERROR(FinishUpTo(view.layer));
  layer_begin_ = RequestTrace::TimeFor(trace_);
  return absl::OkStatus();
}

absl::Status EncodingTap::Begin(const LayerView& view, CodeKind kind, std::int64_t begin, std::int64_t end) {
  while (pending_.size() >= encoder_.workspace->max_pending()) SCD_RETURN_IF_ERROR(FinishFirst());
  const absl::Time start = absl::Now();
  Pending pending{.layer = view.layer, .begin = RequestTrace::TimeFor(trace_), .code = nullptr};
  SCD_ASSIGN_OR_RETURN(pending.code, encoder_.encoder->Begin(
                                         *encoder_.workspace, *view.stream, view.layer, kind,
                                         RowsFor(kind, view).rows(begin - chunk_begin_, end - begin), begin));
  pending_.push_back(std::move(pending));
  encode_time_ += absl::Now() - start;
  return absl::OkStatus();
}

absl::Status EncodingTap::Finish() {
  while (!pending_.empty()) SCD_RETURN_IF_ERROR(FinishFirst());
  return absl::OkStatus();
}

absl::Status EncodingTap::FinishUpTo(std::int64_t layer) {
  while (!pending_.empty()) {
    if (pending_.front().layer == layer) {
      SCD_ASSIGN_OR_RETURN(const bool ready, pending_.front().code->Ready());
      if (!ready) break;
    }
    SCD_RETURN_IF_ERROR(FinishFirst());
  }
  return absl::OkStatus();
}

absl::Status EncodingTap::FinishFirst() {
  const absl::Time start = absl::Now();
  const Pending pending = std::move(pending_.front());
  pending_.pop_front();
  SCD_ASSIGN_OR_RETURN(LayerCode code, pending.code->Finish());
  encode_time_ += absl::Now() - start;
  if (trace_ != nullptr) {
    TraceDetail detail = DetailOf(code);
    detail.chunk = chunk_;
    trace_->AddSpan(TraceTrack::kEncode, "encode", pending.begin, RequestTrace::Clock::now(), detail);
  }
  emit_(std::move(code));
  return absl::OkStatus();
}

}  // namespace scd
