// Turns what a layer of the base model shows into codes while the forward pass runs: the products of a
// layer's codes are queued with the layer, and the codes packed as soon as the device has handed them over,
// at the latest when the next layer was queued, so that a device never waits for the host to pack. What is
// ready at once is packed at once.
#ifndef SCD_PRODUCER_ENCODING_TAP_H_
#define SCD_PRODUCER_ENCODING_TAP_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "common/model/layer_tap.h"
#include "common/trace/request_trace.h"
#include "common/wire/layer_code.h"
#include "producer/encoder_cache.h"

namespace scd {

// For one forward pass over the positions [chunk_begin, chunk_begin + rows) of one prompt.
class EncodingTap : public LayerTap {
 public:
  // Codes of positions from first_token on go to `emit`, layer by layer. The encoder's workspace is this
  // tap's as long as it lives.
  EncodingTap(const ReadyEncoder& encoder, std::int64_t chunk_begin, std::int64_t chunk_end,
              std::int64_t first_token, std::function<void(LayerCode)> emit)
      : encoder_(encoder),
        chunk_begin_(chunk_begin),
        chunk_end_(chunk_end),
        first_token_(first_token),
        emit_(std::move(emit)) {}

  // The pass is the chunk of this index of its request, and begins now. `trace` may be null.
  void TraceInto(RequestTrace* trace, std::int64_t chunk) {
    trace_ = trace;
    chunk_ = chunk;
    layer_begin_ = RequestTrace::TimeFor(trace);
  }

  TapKinds Wanted(std::int64_t layer) const override;
  absl::Status OnLayer(const LayerView& view) override;
  // After the forward pass: emits what is left.
  absl::Status Finish();

  // Of this thread, waits for the device included.
  absl::Duration encode_time() const { return encode_time_; }

 private:
  std::vector<SentKind> Sent(std::int64_t layer) const;
  // Positions [begin, end) of the chunk.
  absl::Status Begin(const LayerView& view, CodeKind kind, std::int64_t begin, std::int64_t end);
  // Emits codes of layers before `layer`, and those of others that are ready.
  absl::Status FinishUpTo(std::int64_t layer);
  absl::Status FinishFirst();

  struct Pending {
    std::int64_t layer;
    RequestTrace::Time begin;
    std::unique_ptr<PendingCode> code;
  };

  const ReadyEncoder& encoder_;
  const std::int64_t chunk_begin_;
  const std::int64_t chunk_end_;
  const std::int64_t first_token_;
  const std::function<void(LayerCode)> emit_;
  std::deque<Pending> pending_;
  absl::Duration encode_time_;
  RequestTrace* trace_ = nullptr;
  std::int64_t chunk_ = 0;
  RequestTrace::Time layer_begin_;  // the layer before has shown its state
};

}  // namespace scd

#endif  // SCD_PRODUCER_ENCODING_TAP_H_
