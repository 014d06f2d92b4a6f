#include "consumer/served_prompt.h"

#include <algorithm>
#include <utility>

#include "common/config/transfer_modes.h"
#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::shared_ptr<ServedPrompt>> ServedPrompt::Submit(Engine& engine, ConsumerMetrics& metrics,
                                                                   PromptRegistry& registry,
                                                                   PromptToServe prompt,
                                                                   std::shared_ptr<ServedPromptSink> sink) {
  EngineRequest request = std::move(prompt.engine);
  request.staged_begin = prompt.decision.range.begin;
  request.staged_end = prompt.decision.range.end;
  auto served = std::shared_ptr<ServedPrompt>(
      new ServedPrompt(engine, metrics, registry, std::move(prompt), std::move(sink)));
  served->trace_ = request.trace;
  served->tokens_ = std::make_shared<const std::vector<std::int32_t>>(request.prompt);
  registry.Add(served);
  const absl::StatusOr<EngineRequestId> id = engine.Submit(std::move(request), served);
  if (!id.ok()) {
    registry.Remove(served.get());
    return id.status();
  }
  absl::Status cancelled;
  {
    absl::MutexLock lock(&served->mutex_);
    served->id_ = *id;
    cancelled = served->cancelled_;
  }
  if (!cancelled.ok()) engine.Fail(*id, cancelled);
  return served;
}

ServedPrompt::ServedPrompt(Engine& engine, ConsumerMetrics& metrics, PromptRegistry& registry,
                           PromptToServe prompt, std::shared_ptr<ServedPromptSink> sink)
    : engine_(engine),
      metrics_(metrics),
      registry_(registry),
      prompt_(std::move(prompt)),
      sink_(std::move(sink)) {}

void ServedPrompt::OnAdmitted(EngineRequestId id, std::shared_ptr<Sequence> sequence) {
  if (prompt_.decision.range.empty()) {
    if (!prompt_.decision.outcome.ok()) metrics_.FellBack(prompt_.decision.outcome.reason);
    return;
  }
  const std::int64_t num_known = sequence->valid_length();
  const TokenRange missing = MissingRange(prompt_.decision.range, num_known, prompt_.max_uncoded_tokens);
  if (missing.empty()) {
    engine_.Staged(id, num_known);
    return;
  }
  TransferJob job;
  job.request_id = prompt_.request_id;
  job.prompt = tokens_;
  job.plan = prompt_.plan;
  job.range = missing;
  job.deadline = absl::Now() + std::max(absl::ZeroDuration(), prompt_.transfer_timeout - waited_for_blocks_);
  job.max_uncoded_tokens = prompt_.max_uncoded_tokens;
  job.no_code_store = prompt_.no_code_store;
  job.connect_anew = prompt_.policy == TransferPolicy::kRequire;
  job.trace = trace_;
  job.sequence = std::move(sequence);
  job.done = [self = shared_from_this(), id](const TransferResult& result) {
    self->OnTransferred(id, result);
  };
  std::shared_ptr<Transfer> transfer = prompt_.transfers->Start(std::move(job));
  absl::MutexLock lock(&mutex_);
  if (!transfer_ended_) transfer_ = std::move(transfer);
}

void ServedPrompt::OnTransferred(EngineRequestId id, const TransferResult& result) {
  metrics_.TransferEnded(result);
  {
    absl::MutexLock lock(&mutex_);
    transfer_ended_ = true;
    transfer_.reset();
    result_ = result;
    if (ended_) return;
  }
  if (result.outcome.ok()) {
    engine_.Staged(id, result.range.end);
  } else if (prompt_.policy == TransferPolicy::kRequire ||
             result.outcome.reason == TransferReason::kCancelled) {
    engine_.Fail(id, StatusForRequiredTransfer(result.outcome));
  } else {
    metrics_.FellBack(result.outcome.reason);
    engine_.ComputeNatively(id);
  }
}

void ServedPrompt::Cancel(const absl::Status& status) {
  EngineRequestId id = 0;
  std::shared_ptr<Transfer> transfer;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    cancelled_.Update(status);
    id = id_;
    transfer = transfer_;
  }
  if (id != 0) engine_.Fail(id, status);
  if (transfer != nullptr) transfer->Cancel();
}

void ServedPrompt::OnDone(const absl::Status& status, FinishReason reason, const EngineTimings& timings) {
  registry_.Remove(this);
  ServingRecord record;
  std::shared_ptr<Transfer> transfer;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    transfer = std::move(transfer_);
    record.outcome = prompt_.decision.range.empty() ? prompt_.decision.outcome : result_.outcome;
    record.transferred_tokens = result_.range.size();
    record.transfer = result_.stats;
  }
  if (transfer != nullptr) transfer->Cancel();
  const bool rebuilt = !prompt_.decision.range.empty() && record.transferred_tokens + timings.num_cached > 0;
  record.mode = rebuilt ? prompt_.mode : std::string(kLocalMode);
  record.prompt_tokens = static_cast<std::int64_t>(tokens_->size());
  record.engine = timings;
  if (status.ok()) {
    metrics_.PromptServed(record.transferred_tokens, timings.num_computed, timings.num_cached);
  }
  const std::shared_ptr<ServedPromptSink> sink = std::move(sink_);
  sink->OnDone(status, reason, record);
}

}  // namespace scd
