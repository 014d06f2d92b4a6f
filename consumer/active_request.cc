#include "consumer/active_request.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

double Milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// Steps of decoding that a trace shows one by one; a long answer would crowd out everything else.
constexpr std::int64_t kMaxTracedSteps = 256;

std::vector<std::int32_t> KnownTokens(const EngineRequest& request) {
  std::vector<std::int32_t> tokens = request.prompt;
  if (request.score) tokens.insert(tokens.end(), request.continuation.begin(), request.continuation.end());
  return tokens;
}

}  // namespace

std::int64_t PositionsNeeded(const EngineRequest& request) {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  return request.score ? prompt + static_cast<std::int64_t>(request.continuation.size())
                       : prompt + request.max_tokens - 1;
}

ActiveRequest::ActiveRequest(EngineRequestId id, EngineRequest request,
                             std::shared_ptr<EngineObserver> observer)
    : id_(id),
      request_(std::move(request)),
      observer_(std::move(observer)),
      submitted_(Clock::now()),
      tokens_(KnownTokens(request_)),
      staged_passed_(!staged()),
      sampler_(request_.sampling) {}

SequenceOptions ActiveRequest::PagesAtAdmission(std::int64_t page_tokens) const {
  const std::int64_t most = positions_needed();
  return {.max_tokens = request_.score ? most : std::min(most, prompt_size() + page_tokens),
          .prefix = request_.block_keys,
          .max_prefix_tokens = prompt_size() - 1};
}

ActiveRequest::Clock::time_point ActiveRequest::WaitForBlocks(Clock::time_point now) {
  if (!waits_until_) waits_until_ = now + request_.max_wait_for_blocks;
  return *waits_until_;
}

void ActiveRequest::Admit(std::shared_ptr<Sequence> sequence) {
  sequence_ = std::move(sequence);
  next_position_ = sequence_->valid_length();
  timings_.num_cached = next_position_;
  const Clock::time_point now = Clock::now();
  timings_.queue_ms = Milliseconds(now - submitted_);
  if (request_.trace != nullptr) {
    request_.trace->AddSpan(TraceTrack::kRequest, "queue", submitted_, now, {.tokens = next_position_});
  }
  PassStagedPositions();
  if (waits_until_) {
    observer_->OnWaitedForBlocks(Clock::now() - (*waits_until_ - request_.max_wait_for_blocks));
  }
  observer_->OnAdmitted(id_, sequence_);
}

void ActiveRequest::EndStaging(std::int64_t end) {
  if (staged_passed_ || staged_end_) return;
  staged_end_ = std::clamp(end, request_.staged_begin, request_.staged_end);
  PassStagedPositions();
}

void ActiveRequest::PassStagedPositions() {
  if (staged_passed_ || !staged_end_ || sequence_ == nullptr || next_position_ < request_.staged_begin)
    return;
  shared_end_ = std::min(*staged_end_, sequence_->valid_length());
  next_position_ = std::max(next_position_, *shared_end_);
  staged_passed_ = true;
}

std::int64_t ActiveRequest::shareable_end() const {
  if (!staged()) return std::min(next_position_, prompt_size());
  return shared_end_.value_or(0);
}

std::int64_t ActiveRequest::native_end() const {
  if (!staged_passed_) return request_.staged_begin;
  return request_.score ? static_cast<std::int64_t>(tokens_.size()) : prompt_size();
}

std::int64_t ActiveRequest::native_rows() const {
  if (!has_pages()) return 0;
  return std::max<std::int64_t>(0, native_end() - next_position_);
}

ForwardChunk ActiveRequest::NextNativeChunk(std::int64_t max_rows, std::int64_t max_logit_rows) const {
  const std::int64_t last_of_prompt = prompt_size() - 1;
  std::int64_t end = std::min(native_end(), next_position_ + max_rows);
  LogitsWanted logits = LogitsWanted::kNone;
  if (request_.score && next_position_ >= last_of_prompt) {
    logits = LogitsWanted::kAll;
    end = std::min(end, next_position_ + max_logit_rows);
  } else if (request_.score) {
    end = std::min(end, last_of_prompt);
  } else if (end == prompt_size()) {
    logits = LogitsWanted::kLast;
  }
  const auto tokens = absl::MakeConstSpan(tokens_).subspan(static_cast<std::size_t>(next_position_),
                                                           static_cast<std::size_t>(end - next_position_));
  return ForwardChunk{sequence_.get(), tokens, next_position_, logits};
}

ActiveRequest::Progress ActiveRequest::NativeChunkDone(const ForwardChunk& chunk, ConstTensorView scored,
                                                       StepLogits& step, std::chrono::nanoseconds elapsed) {
  const std::int64_t begin = next_position_;
  next_position_ += static_cast<std::int64_t>(chunk.tokens.size());
  if (begin < prompt_size()) {
    timings_.native_prefill_ms += Milliseconds(elapsed);
    timings_.num_computed += std::min(next_position_, prompt_size()) - begin;
  }
  PassStagedPositions();
  if (chunk.logits == LogitsWanted::kNone) return std::optional<FinishReason>();
  if (!request_.score) return EmitToken(step, 0);

  const std::int64_t first_row = begin - (prompt_size() - 1);
  if (first_row == 0) {
    NoteFirstToken(Clock::now());
  }
  observer_->OnLogits(first_row, scored);
  if (next_position_ < static_cast<std::int64_t>(tokens_.size())) return std::optional<FinishReason>();
  return std::optional<FinishReason>(FinishReason::kMaxTokens);
}

void ActiveRequest::TracePass(const ForwardChunk& chunk, Clock::time_point begin, Clock::time_point end) {
  if (request_.trace == nullptr) return;
  const TraceDetail detail{.first_token = chunk.first_position,
                           .tokens = static_cast<std::int64_t>(chunk.tokens.size())};
  if (!decoding_) {
    request_.trace->AddSpan(TraceTrack::kNative, being_rebuilt() ? "native head" : "native rest", begin, end,
                            detail);
  } else if (num_traced_steps_++ < kMaxTracedSteps) {
    request_.trace->AddSpan(TraceTrack::kDecode, "step", begin, end, detail);
  }
}

ForwardChunk ActiveRequest::NextDecodeChunk() const {
  return ForwardChunk{sequence_.get(), absl::MakeConstSpan(tokens_).last(1), next_position_,
                      LogitsWanted::kLast};
}

ActiveRequest::Progress ActiveRequest::DecodeChunkDone(StepLogits& step, std::int64_t row) {
  ++next_position_;
  return EmitToken(step, row);
}

absl::StatusOr<SampledToken> ActiveRequest::DrawToken(StepLogits& step, std::int64_t row) {
  if (const std::optional<TopOfRow> top = step.Top(row)) {
    SCD_ASSIGN_OR_RETURN(std::optional<SampledToken> token, sampler_.SampleTop(*top, tokens_));
    if (token) return *std::move(token);
  }
  SCD_ASSIGN_OR_RETURN(const absl::Span<const float> whole, step.Whole(row));
  return sampler_.Sample(whole, tokens_);
}

ActiveRequest::Progress ActiveRequest::EmitToken(StepLogits& step, std::int64_t row) {
  SCD_ASSIGN_OR_RETURN(const SampledToken token, DrawToken(step, row));
  const Clock::time_point now = Clock::now();
  if (!decoding_) {
    NoteFirstToken(now);
    decoding_ = true;
  }
  timings_.decode_ms = Milliseconds(now - first_token_);
  const auto& stops = request_.stop_token_ids;
  if (std::find(stops.begin(), stops.end(), token.id) != stops.end()) {
    return std::optional<FinishReason>(FinishReason::kStopToken);
  }
  tokens_.push_back(token.id);
  if (!observer_->OnToken(token)) return std::optional<FinishReason>(FinishReason::kStopped);
  if (static_cast<std::int64_t>(tokens_.size()) - prompt_size() == request_.max_tokens) {
    return std::optional<FinishReason>(FinishReason::kMaxTokens);
  }
  return std::optional<FinishReason>();
}

void ActiveRequest::NoteFirstToken(Clock::time_point now) {
  first_token_ = now;
  timings_.first_token_ms = Milliseconds(now - submitted_);
  if (request_.trace != nullptr) request_.trace->AddMoment(TraceTrack::kRequest, "first token");
}

void ActiveRequest::TellDone(const absl::Status& status, FinishReason reason) {
  if (decoding_ && request_.trace != nullptr) {
    request_.trace->AddSpan(
        TraceTrack::kDecode, "decode", first_token_, Clock::now(),
        {.first_token = prompt_size(), .tokens = static_cast<std::int64_t>(tokens_.size()) - prompt_size()});
  }
  observer_->OnDone(status, reason, timings_);
}

}  // namespace scd
