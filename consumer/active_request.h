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
#include "consumer/step_logits.h"

namespace scd {

// The positions of a request's KV: prompt and continuation, or prompt and all output but the last token.
std::int64_t PositionsNeeded(const EngineRequest& request);

class ActiveRequest {
 public:
  using Clock = std::chrono::steady_clock;
  // The reason where the request has come to its end, nothing where it goes on, or the error that ends it.
  using Progress = absl::StatusOr<std::optional<FinishReason>>;

  // `request` is valid. The life begins now.
  ActiveRequest(EngineRequestId id, EngineRequest request, std::shared_ptr<EngineObserver> observer);

  EngineRequestId id() const { return id_; }
  std::stop_source stop_source() const { return stop_; }
  std::int64_t positions_needed() const { return PositionsNeeded(request_); }

  // --- pages ---

  // Keys of the blocks that it may take over and make known; none where it shares nothing.
  const std::vector<Digest>& block_keys() const { return request_.block_keys; }
  // The pages to come in with: for the prompt and one block of output.
  SequenceOptions PagesAtAdmission(std::int64_t page_tokens) const;
  // It could come in but for blocks that another is making: until when it waits for them.
  Clock::time_point WaitForBlocks(Clock::time_point now);
  std::optional<Clock::time_point> waits_for_blocks_until() const { return waits_until_; }
  // Gives it its pages. Once.
  void Admit(std::shared_ptr<Sequence> sequence);
  // After Admit.
  Sequence& sequence() { return *sequence_; }
  bool has_pages() const { return sequence_ != nullptr && !sequence_->swapped_out(); }
  // Whether somebody else writes into its pages, or will once it has them.
  bool being_rebuilt() const { return !staged_passed_; }
  // Whether its pages may be moved away: nobody else writes into them.
  bool preemptible() const { return has_pages() && !being_rebuilt(); }
  // The blocks inside [0, shareable_end()) are as their keys say; whether more will follow.
  std::int64_t shareable_end() const;
  bool shares_all() const { return staged_passed_ && (shared_end_ || next_position_ >= prompt_size()); }

  // --- staging ---

  // Positions [staged_begin, end) are valid; nothing more will be staged. The first call counts; it may come
  // before Admit.
  void EndStaging(std::int64_t end);

  // --- passes ---

  // The first position whose K and V are not there.
  std::int64_t next_position() const { return next_position_; }
  // Native rows that can run now; 0 where it waits for staged state or pages, or is past its prompt.
  std::int64_t native_rows() const;
  // The next of them, 1 to max_rows; with at most max_logit_rows rows of logits.
  ForwardChunk NextNativeChunk(std::int64_t max_rows, std::int64_t max_logit_rows) const;
  // That chunk has run for `elapsed`. `scored`: the logits of a request to score; `step`: of another, one row
  // where the chunk asked for it.
  Progress NativeChunkDone(const ForwardChunk& chunk, ConstTensorView scored, StepLogits& step,
                           std::chrono::nanoseconds elapsed);
  // A pass over its rows ran from `begin` to `end`, to compute positions of the prompt or to decode.
  void TracePass(const ForwardChunk& chunk, Clock::time_point begin, Clock::time_point end);

  // Whether it has tokens to decode, as far as it has pages.
  bool decoding() const { return decoding_; }
  ForwardChunk NextDecodeChunk() const;
  // Row `row` of the step is that chunk's.
  Progress DecodeChunkDone(StepLogits& step, std::int64_t row);
  // Whether it only wants logits, and draws no tokens.
  bool scores() const { return request_.score; }
  float temperature() const { return sampler_.params().temperature; }

  // Gives back its share of the pages. Tell comes after it.
  void ReleasePages() { sequence_.reset(); }
  // The last word to the observer.
  void TellDone(const absl::Status& status, FinishReason reason);

 private:
  // Whether positions arrive from elsewhere at all.
  bool staged() const { return request_.staged_begin < request_.staged_end; }
  std::int64_t prompt_size() const { return static_cast<std::int64_t>(request_.prompt.size()); }
  // One more than the last position that the native part computes.
  std::int64_t native_end() const;
  void PassStagedPositions();
  void NoteFirstToken(Clock::time_point now);
  absl::StatusOr<SampledToken> DrawToken(StepLogits& step, std::int64_t row);
  Progress EmitToken(StepLogits& step, std::int64_t row);

  const EngineRequestId id_;
  const EngineRequest request_;
  const std::shared_ptr<EngineObserver> observer_;
  const std::stop_source stop_;
  const Clock::time_point submitted_;
  Clock::time_point first_token_;
  EngineTimings timings_;

  std::shared_ptr<Sequence> sequence_;
  std::vector<std::int32_t> tokens_;  // prompt, then continuation or output
  std::int64_t next_position_ = 0;    // first position whose K and V are not there
  bool staged_passed_ = false;        // next_position_ lies behind what was staged; true where nothing is
  std::optional<std::int64_t> staged_end_;  // once staging ended
  std::optional<std::int64_t> shared_end_;  // of a staged request, once it has passed
  std::optional<Clock::time_point> waits_until_;
  bool decoding_ = false;
  std::int64_t num_traced_steps_ = 0;
  Sampler sampler_;
};

}  // namespace scd

#endif  // SCD_CONSUMER_ACTIVE_REQUEST_H_
