// One request inside the engine: what it still has to compute, what comes out of it, and what its observer
// hears.
//
// Belongs to the engine's thread; only its stop source is shared.
#ifndef SCD_CONSUMER_ACTIVE_REQUEST_H_
#define SCD_CONSUMER_ACTIVE_REQUEST_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cache/sequence.h"
#include "common/model/transformer.h"
#include "consumer/engine.h"
#include "consumer/sampler.h"

namespace scd {

// The positions of a request's KV: prompt and continuation, or prompt and all output but the last token.
std::int64_t PositionsNeeded(const EngineRequest& request);

class ActiveRequest {
 public:
  // The reason where the request has come to its end, nothing where it goes on, or the error that ends it.
  using Progress = absl::StatusOr<std::optional<FinishReason>>;

  // `request` is valid. The life begins now.
  ActiveRequest(EngineRequestId id, EngineRequest request, std::shared_ptr<EngineObserver> observer);

  EngineRequestId id() const { return id_; }
  std::stop_source stop_source() const { return stop_; }
  std::int64_t positions_needed() const { return PositionsNeeded(request_); }

  // Gives it its pages. Once.
  void Admit(std::shared_ptr<Sequence> sequence);
  // Positions [staged_begin, end) are valid; nothing more will be staged. The first call counts; it may come
  // before Admit.
  void EndStaging(std::int64_t end);

  // Native rows that can run now; 0 where it waits for staged state or is past its prompt.
  std::int64_t native_rows() const;
  // The next of them, 1 to max_rows; with at most max_logit_rows rows of logits.
  ForwardChunk NextNativeChunk(std::int64_t max_rows, std::int64_t max_logit_rows) const;
  // That chunk has run for `elapsed`; `logits` are those it asked for.
  Progress NativeChunkDone(const ForwardChunk& chunk, ConstTensorView logits,
                           std::chrono::nanoseconds elapsed);

  // Whether it has tokens to decode.
  bool decoding() const { return decoding_; }
  ForwardChunk NextDecodeChunk() const;
  // [1, vocabulary] of that chunk.
  Progress DecodeChunkDone(ConstTensorView logits);

  // Gives back its share of the pages. Tell comes after it.
  void ReleasePages() { sequence_.reset(); }
  // The last word to the observer.
  void TellDone(const absl::Status& status, FinishReason reason);

 private:
  using Clock = std::chrono::steady_clock;

  std::int64_t prompt_size() const { return static_cast<std::int64_t>(request_.prompt.size()); }
  // One more than the last position that the native part computes.
  std::int64_t native_end() const;
  void PassStagedPositions();
  Progress EmitToken(ConstTensorView logits);

  const EngineRequestId id_;
  const EngineRequest request_;
  const std::shared_ptr<EngineObserver> observer_;
  const std::stop_source stop_;
  const Clock::time_point submitted_;
  Clock::time_point first_token_;
  EngineTimings timings_;

  std::shared_ptr<Sequence> sequence_;
  std::vector<std::int32_t> tokens_;        // prompt, then continuation or output
  std::int64_t next_position_ = 0;          // first position whose K and V are not there
  bool staged_passed_ = false;              // next_position_ lies behind what was staged
  std::optional<std::int64_t> staged_end_;  // once staging ended
  bool decoding_ = false;
  Sampler sampler_;
};

}  // namespace scd

#endif  // SCD_CONSUMER_ACTIVE_REQUEST_H_
