#include "consumer/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/types/span.h"
#include "common/cache/kv_cache_settings.h"
#include "common/cache/paged_kv_cache.h"
#include "consumer/active_request.h"
#include "consumer/engine_checks.h"
#include "consumer/engine_inbox.h"
#include "consumer/request_table.h"
#include "consumer/scheduler.h"
#include "consumer/step_logits.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Bounds the memory that logits of a Score request take; its rows come in blocks of that size.
constexpr std::int64_t kScoreLogitsBytes = std::int64_t{16} << 20;

class EngineImpl;

// Lets the engine's thread look at its inbox between the layers of a pass, so that a request that is
// cancelled or comes in while another's chunk runs does not wait for the chunk.
class BetweenLayers final : public LayerTap {
 public:
  explicit BetweenLayers(EngineImpl& engine) : engine_(engine) {}
  TapKinds Wanted(std::int64_t /*layer*/) const override { return TapKind::kResidual; }
  absl::Status OnLayer(const LayerView& view) override;

 private:
  EngineImpl& engine_;
};

class EngineImpl final : public Engine {
 public:
  EngineImpl(const Transformer& transformer, const EngineOptions& options,
             std::unique_ptr<PagedKvCache> cache, std::unique_ptr<Transformer::Workspace> workspace,
             std::unique_ptr<StepLogits> step_logits)
      : transformer_(transformer),
        options_(options),
        cache_(std::move(cache)),
        workspace_(std::move(workspace)),
        step_logits_(std::move(step_logits)),
        scheduler_(options.max_batch_sequences, options.prefill_chunk_tokens),
        requests_(*cache_, options.swap_bytes, [this] { inbox_.Wake(); }),
        inbox_(options.max_queued_requests),
        between_layers_(*this),
        thread_([this] { Run(); }) {}

  ~EngineImpl() override {
    inbox_.Stop();
    stop_decoding_.request_stop();
    thread_.join();
  }

  absl::StatusOr<RequestId> Submit(EngineRequest request, std::shared_ptr<EngineObserver> observer) override;

  void Staged(RequestId id, std::int64_t end) override { inbox_.Send({id, end, absl::OkStatus()}); }
  void ComputeNatively(RequestId id) override { inbox_.Send({id, 0, absl::OkStatus()}); }
  void Fail(RequestId id, const absl::Status& status) override {
    inbox_.Send({id, std::nullopt, status.ok() ? absl::CancelledError("ended without a reason") : status});
  }

  Stats stats() const override;

  // Takes in requests and commands, ends what has failed and is not in the running pass, admits what has
  // room.
  void Service();

 private:
  void Run();
  void Admit();
  // Each says whether anything was done.
  bool RunDecodeStep();
  bool RunNativeStep();
  // The next ones to decode, with pages for it.
  std::vector<RequestId> NextDecodeBatch();
  void RunNativeTurn(const NativeRows& turn);
  // Logits come to the host only where they are scored.
  absl::Status Forward(absl::Span<const ForwardChunk> chunks, const std::vector<RequestId>& ids,
                       std::stop_token cancel, bool scored);
  // Ends the request where `progress` says so.
  void Settle(RequestId id, const ActiveRequest::Progress& progress);
  void Finish(RequestId id, const absl::Status& status, FinishReason reason);

  const Transformer& transformer_;
  const EngineOptions options_;
  const std::unique_ptr<PagedKvCache> cache_;
  const std::unique_ptr<Transformer::Workspace> workspace_;
  const std::unique_ptr<StepLogits> step_logits_;
  std::atomic<RequestId> last_id_{0};
  std::stop_source stop_decoding_;

  // Of the engine's thread.
  Scheduler scheduler_;
  RequestTable requests_;
  std::map<RequestId, absl::Status> failures_;  // to end as soon as they are in no pass
  std::vector<RequestId> in_pass_;

  EngineInbox inbox_;
  BetweenLayers between_layers_;
  std::thread thread_;  // last: it uses all of the above
};

absl::Status BetweenLayers::OnLayer(const LayerView& /*view*/) {
  engine_.Service();
  return absl::OkStatus();
}

absl::StatusOr<Engine::RequestId> EngineImpl::Submit(EngineRequest request,
                                                     std::shared_ptr<EngineObserver> observer) {
  if (observer == nullptr) return absl::InvalidArgumentError("engine: a request needs an observer");
  SCD_RETURN_IF_ERROR(CheckEngineRequest(request, transformer_, options_));
  const RequestId id = ++last_id_;
  SCD_RETURN_IF_ERROR(
      inbox_.Add(std::make_unique<ActiveRequest>(id, std::move(request), std::move(observer))));
  return id;
}

Engine::Stats EngineImpl::stats() const {
  const PagedKvCache::Stats cache = cache_->stats();
  const RequestTable::Counts counts = requests_.counts();
  return Stats{.pages_used = cache.used_pages,
               .pages_total = cache_->num_pages(),
               .requests_queued = inbox_.num_queued(),
               .requests_running = inbox_.num_running(),
               .requests_swapped = counts.swapped_requests,
               .pages_indexed = cache.indexed_pages,
               .pages_evicted = cache.evicted_pages,
               .preemptions = counts.preemptions,
               .swapped_bytes = counts.swapped_bytes};
}

void EngineImpl::Run() {
  while (!inbox_.stopped()) {
    Service();
    const bool decoded = RunDecodeStep();
    const bool computed = RunNativeStep();
    if (!decoded && !computed) inbox_.Wait(requests_.NextDeadline(RequestTable::Clock::now()));
  }
  Service();
  for (const RequestId id : requests_.AllIds()) {
    Finish(id, absl::CancelledError("engine: shut down"), FinishReason::kStopped);
  }
}

void EngineImpl::Service() {
  EngineInbox::Contents news = inbox_.Take();
  for (std::unique_ptr<ActiveRequest>& request : news.requests) requests_.Enqueue(std::move(request));
  for (EngineCommand& command : news.commands) {
    if (!command.failure.ok()) {
      failures_.emplace(command.id, std::move(command.failure));
    } else if (ActiveRequest* const request = requests_.Find(command.id);
               request != nullptr && command.staged_end) {
      request->EndStaging(*command.staged_end);
      requests_.PublishBlocks(*request);
    }
  }
  std::vector<std::pair<RequestId, absl::Status>> due;
  for (const auto& [id, status] : failures_) {
    if (std::find(in_pass_.begin(), in_pass_.end(), id) == in_pass_.end()) due.emplace_back(id, status);
  }
  for (const auto& [id, status] : due) Finish(id, status, FinishReason::kStopped);
  if (!inbox_.stopped()) Admit();
}

void EngineImpl::Admit() {
  requests_.Resume();
  while (auto admission = requests_.AdmitNext(RequestTable::Clock::now())) {
    ActiveRequest& request = *admission->request;
    if (!admission->sequence.ok()) {
      Finish(request.id(), admission->sequence.status(), FinishReason::kStopped);
      continue;
    }
    inbox_.MarkAdmitted(request.id());
    request.Admit(*std::move(admission->sequence));
  }
}

absl::Status EngineImpl::Forward(absl::Span<const ForwardChunk> chunks, const std::vector<RequestId>& ids,
                                 std::stop_token cancel, bool scored) {
  in_pass_ = ids;
  const absl::Status status = transformer_.Forward(
      *workspace_, chunks, {.tap = &between_layers_, .cancel = std::move(cancel), .leave_logits = !scored});
  in_pass_.clear();
  return status;
}

std::vector<Engine::RequestId> EngineImpl::NextDecodeBatch() {
  std::vector<RequestId> decoding;
  for (const auto& [id, request] : requests_.admitted()) {
    if (request->decoding() && request->has_pages()) decoding.push_back(id);
  }
  std::vector<RequestId> batch = scheduler_.NextDecodeBatch(decoding);
  // Oldest first: each may take the pages of younger ones.
  std::vector<RequestId> by_age = batch;
  std::sort(by_age.begin(), by_age.end());
  std::vector<RequestTable::Ended> ended;
  std::set<RequestId> ready;
  for (const RequestId id : by_age) {
    ActiveRequest& request = *requests_.admitted().at(id);
    if (request.has_pages() && requests_.MakeRoom(request, ended)) ready.insert(id);
  }
  for (const RequestTable::Ended& end : ended) Finish(end.id, end.status, FinishReason::kStopped);
  std::erase_if(batch, [&ready](RequestId id) { return !ready.contains(id); });
  return batch;
}

bool EngineImpl::RunDecodeStep() {
  const std::vector<RequestId> batch = NextDecodeBatch();
  if (batch.empty()) return false;
  std::vector<ForwardChunk> chunks;
  std::vector<float> temperatures;
  for (const RequestId id : batch) {
    chunks.push_back(requests_.admitted().at(id)->NextDecodeChunk());
    temperatures.push_back(requests_.admitted().at(id)->temperature());
  }
  const auto begin = ActiveRequest::Clock::now();
  absl::Status status = Forward(chunks, batch, stop_decoding_.get_token(), /*scored=*/false);
  const auto end = ActiveRequest::Clock::now();
  if (absl::IsCancelled(status)) return true;  // shutting down
  if (status.ok()) {
    status = step_logits_->Begin(workspace_->stream(), workspace_->device_logits(), temperatures);
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (!status.ok()) {
      Settle(batch[i], status);
    } else if (!failures_.contains(batch[i])) {
      ActiveRequest& request = *requests_.admitted().at(batch[i]);
      request.TracePass(chunks[i], begin, end);
      Settle(batch[i], request.DecodeChunkDone(*step_logits_, static_cast<std::int64_t>(i)));
    }
  }
  return true;
}

bool EngineImpl::RunNativeStep() {
  std::vector<NativeRows> waiting;
  for (const auto& [id, request] : requests_.admitted()) {
    if (request->native_rows() > 0) waiting.push_back({id, request->native_rows()});
  }
  const std::vector<NativeRows> turns = scheduler_.NextNative(waiting);
  for (const NativeRows& turn : turns) RunNativeTurn(turn);
  return !turns.empty();
}

void EngineImpl::RunNativeTurn(const NativeRows& turn) {
  for (std::int64_t left = turn.rows; left > 0;) {
    Service();
    ActiveRequest* const request = requests_.Find(turn.request);
    if (request == nullptr || request->native_rows() == 0) return;
    const ForwardChunk chunk = request->NextNativeChunk(left, workspace_->max_logit_rows());
    left -= static_cast<std::int64_t>(chunk.tokens.size());
    const auto begin = std::chrono::steady_clock::now();
    absl::Status status =
        Forward({&chunk, 1}, {turn.request}, request->stop_source().get_token(), request->scores());
    if (absl::IsCancelled(status) && request->stop_source().stop_requested()) {
      return;  // its reason is in the inbox
    }
    const auto end = std::chrono::steady_clock::now();
    if (status.ok() && !request->scores() && chunk.logits != LogitsWanted::kNone) {
      const float temperature = request->temperature();
      status = step_logits_->Begin(workspace_->stream(), workspace_->device_logits(), {&temperature, 1});
    }
    if (!status.ok()) return Settle(turn.request, status);
    request->TracePass(chunk, begin, end);
    const ActiveRequest::Progress progress =
        request->NativeChunkDone(chunk, workspace_->logits(), *step_logits_, end - begin);
    requests_.PublishBlocks(*request);
    Settle(turn.request, progress);
  }
}

void EngineImpl::Settle(RequestId id, const ActiveRequest::Progress& progress) {
  if (!progress.ok()) {
    Finish(id, progress.status(), FinishReason::kStopped);
  } else if (progress->has_value()) {
    Finish(id, absl::OkStatus(), **progress);
  }
}

void EngineImpl::Finish(RequestId id, const absl::Status& status, FinishReason reason) {
  const std::unique_ptr<ActiveRequest> request = requests_.Take(id);
  failures_.erase(id);
  if (request == nullptr) return;
  request->ReleasePages();
  inbox_.MarkDone(id);
  request->TellDone(status, reason);
}

// Rows of the largest passes.
struct PassRows {
  std::int64_t all = 0;
  std::int64_t with_logits = 0;
};

PassRows RowsOfPasses(const ModelConfig& config, const EngineOptions& options) {
  const std::int64_t score_rows =
      std::clamp<std::int64_t>(kScoreLogitsBytes / (config.vocab_size * 4), 1, options.prefill_chunk_tokens);
  const std::int64_t with_logits = std::max(score_rows, options.max_batch_sequences);
  return {std::max(options.prefill_chunk_tokens, with_logits), with_logits};
}

}  // namespace

std::int64_t Engine::WorkspaceBytes(const Transformer& transformer, const EngineOptions& options) {
  const PassRows rows = RowsOfPasses(transformer.config(), options);
  return transformer.workspace_bytes(rows.all, rows.with_logits);
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const Transformer& transformer,
                                                       const EngineOptions& options) {
  SCD_RETURN_IF_ERROR(CheckEngineOptions(options));
  const ModelConfig& config = transformer.config();
  const KvLayout layout = LayoutFor({.page_tokens = options.page_tokens, .dtype = options.kv_dtype}, config);
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<PagedKvCache> cache,
                       PagedKvCache::Create(transformer.backend(), layout, options.num_pages));
  const PassRows rows = RowsOfPasses(config, options);
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<Transformer::Workspace> workspace,
                       transformer.CreateWorkspace(rows.all, rows.with_logits));
  SCD_ASSIGN_OR_RETURN(
      std::unique_ptr<StepLogits> step_logits,
      StepLogits::Create(transformer.backend(), options.max_batch_sequences, config.vocab_size));
  return std::make_unique<EngineImpl>(transformer, options, std::move(cache), std::move(workspace),
                                      std::move(step_logits));
}

}  // namespace scd
