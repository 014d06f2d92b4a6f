#include "consumer/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "common/cache/paged_kv_cache.h"
#include "consumer/active_request.h"
#include "consumer/engine_checks.h"
#include "consumer/engine_inbox.h"
#include "consumer/scheduler.h"
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
             std::unique_ptr<PagedKvCache> cache, std::unique_ptr<Transformer::Workspace> workspace)
      : transformer_(transformer),
        options_(options),
        cache_(std::move(cache)),
        workspace_(std::move(workspace)),
        scheduler_(options.max_batch_sequences, options.prefill_chunk_tokens),
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

  Stats stats() const override {
    return Stats{cache_->num_used_pages(), cache_->num_pages(), inbox_.num_queued(), inbox_.num_running()};
  }

  // Takes in requests and commands, ends what has failed and is not in the running pass, admits what has
  // room.
  void Service();

 private:
  void Run();
  void Admit();
  bool HasWork() const;
  // Admitted or queued; null where it is not there any more.
  ActiveRequest* Find(RequestId id);
  void RunDecodeStep();
  void RunNativeStep();
  void RunNativeTurn(const NativeRows& turn);
  absl::Status Forward(absl::Span<const ForwardChunk> chunks, const std::vector<RequestId>& ids,
                       std::stop_token cancel);
  // Ends the request where `progress` says so.
  void Settle(RequestId id, const ActiveRequest::Progress& progress);
  void Finish(RequestId id, const absl::Status& status, FinishReason reason);

  const Transformer& transformer_;
  const EngineOptions options_;
  const std::unique_ptr<PagedKvCache> cache_;
  const std::unique_ptr<Transformer::Workspace> workspace_;
  std::atomic<RequestId> last_id_{0};
  std::stop_source stop_decoding_;

  // Of the engine's thread.
  Scheduler scheduler_;
  std::deque<std::unique_ptr<ActiveRequest>> queue_;
  std::map<RequestId, std::unique_ptr<ActiveRequest>> running_;  // admitted
  std::map<RequestId, absl::Status> failures_;                   // to end as soon as they are in no pass
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
  SCD_RETURN_IF_ERROR(CheckEngineRequest(request, transformer_, cache_->num_pages() * options_.page_tokens));
  const RequestId id = ++last_id_;
  SCD_RETURN_IF_ERROR(
      inbox_.Add(std::make_unique<ActiveRequest>(id, std::move(request), std::move(observer))));
  return id;
}

void EngineImpl::Run() {
  while (!inbox_.stopped()) {
    Service();
    if (HasWork()) {
      RunDecodeStep();
      RunNativeStep();
    } else {
      inbox_.Wait();
    }
  }
  Service();
  std::vector<RequestId> left;
  for (const auto& request : queue_) left.push_back(request->id());
  for (const auto& [id, request] : running_) left.push_back(id);
  for (const RequestId id : left)
    Finish(id, absl::CancelledError("engine: shut down"), FinishReason::kStopped);
}

void EngineImpl::Service() {
  EngineInbox::Contents news = inbox_.Take();
  for (std::unique_ptr<ActiveRequest>& request : news.requests) queue_.push_back(std::move(request));
  for (EngineCommand& command : news.commands) {
    if (!command.failure.ok()) {
      failures_.emplace(command.id, std::move(command.failure));
    } else if (ActiveRequest* const request = Find(command.id); request != nullptr && command.staged_end) {
      request->EndStaging(*command.staged_end);
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
  while (!queue_.empty()) {
    const std::int64_t positions = queue_.front()->positions_needed();
    if (cache_->PagesFor(positions) > cache_->num_pages() - cache_->num_used_pages()) return;
    absl::StatusOr<std::unique_ptr<Sequence>> sequence = Sequence::Create(*cache_, positions);
    if (!sequence.ok()) {
      Finish(queue_.front()->id(), sequence.status(), FinishReason::kStopped);
      continue;
    }
    // The last share may go on a writer's thread: the pages that it frees may be what the queue waits for.
    std::shared_ptr<Sequence> shared(sequence->release(), [this](Sequence* s) {
      delete s;
      inbox_.Wake();
    });
    std::unique_ptr<ActiveRequest> request = std::move(queue_.front());
    queue_.pop_front();
    inbox_.MarkAdmitted(request->id());
    ActiveRequest& admitted = *request;
    running_.emplace(request->id(), std::move(request));
    admitted.Admit(std::move(shared));
  }
}

ActiveRequest* EngineImpl::Find(RequestId id) {
  if (const auto it = running_.find(id); it != running_.end()) return it->second.get();
  const auto queued =
      std::find_if(queue_.begin(), queue_.end(), [id](const auto& r) { return r->id() == id; });
  return queued == queue_.end() ? nullptr : queued->get();
}

bool EngineImpl::HasWork() const {
  return std::any_of(running_.begin(), running_.end(), [](const auto& entry) {
    return entry.second->decoding() || entry.second->native_rows() > 0;
  });
}

absl::Status EngineImpl::Forward(absl::Span<const ForwardChunk> chunks, const std::vector<RequestId>& ids,
                                 std::stop_token cancel) {
  in_pass_ = ids;
  const absl::Status status =
      transformer_.Forward(*workspace_, chunks, {.tap = &between_layers_, .cancel = std::move(cancel)});
  in_pass_.clear();
  return status;
}

void EngineImpl::RunDecodeStep() {
  std::vector<RequestId> decoding;
  for (const auto& [id, request] : running_) {
    if (request->decoding()) decoding.push_back(id);
  }
  const std::vector<RequestId> batch = scheduler_.NextDecodeBatch(decoding);
  if (batch.empty()) return;
  std::vector<ForwardChunk> chunks;
  for (const RequestId id : batch) chunks.push_back(running_.at(id)->NextDecodeChunk());
  const absl::Status status = Forward(chunks, batch, stop_decoding_.get_token());
  if (absl::IsCancelled(status)) return;  // shutting down
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (!status.ok()) {
      Settle(batch[i], status);
    } else if (!failures_.contains(batch[i])) {
      Settle(batch[i], running_.at(batch[i])->DecodeChunkDone(
                           workspace_->logits().rows(static_cast<std::int64_t>(i), 1)));
    }
  }
}

void EngineImpl::RunNativeStep() {
  std::vector<NativeRows> waiting;
  for (const auto& [id, request] : running_) {
    if (request->native_rows() > 0) waiting.push_back({id, request->native_rows()});
  }
  for (const NativeRows& turn : scheduler_.NextNative(waiting)) RunNativeTurn(turn);
}

void EngineImpl::RunNativeTurn(const NativeRows& turn) {
  for (std::int64_t left = turn.rows; left > 0;) {
    Service();
    const auto it = running_.find(turn.request);
    if (it == running_.end() || it->second->native_rows() == 0) return;
    const ForwardChunk chunk = it->second->NextNativeChunk(left, workspace_->max_logit_rows());
    left -= static_cast<std::int64_t>(chunk.tokens.size());
    const auto begin = std::chrono::steady_clock::now();
    const absl::Status status = Forward({&chunk, 1}, {turn.request}, it->second->stop_source().get_token());
    if (absl::IsCancelled(status) && it->second->stop_source().stop_requested())
      return;  // its reason is in the inbox
    Settle(turn.request, status.ok() ? it->second->NativeChunkDone(chunk, workspace_->logits(),
                                                                   std::chrono::steady_clock::now() - begin)
                                     : ActiveRequest::Progress(status));
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
  std::unique_ptr<ActiveRequest> request;
  if (const auto it = running_.find(id); it != running_.end()) {
    request = std::move(it->second);
    running_.erase(it);
  } else {
    const auto queued =
        std::find_if(queue_.begin(), queue_.end(), [id](const auto& r) { return r->id() == id; });
    if (queued != queue_.end()) {
      request = std::move(*queued);
      queue_.erase(queued);
    }
  }
  failures_.erase(id);
  if (request == nullptr) return;
  request->ReleasePages();
  inbox_.MarkDone(id);
  request->TellDone(status, reason);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const Transformer& transformer,
                                                       const EngineOptions& options) {
  SCD_RETURN_IF_ERROR(CheckEngineOptions(options));
  const ModelConfig& config = transformer.config();
  const KvLayout layout{config.num_layers, config.num_kv_heads, config.head_dim, options.page_tokens};
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<PagedKvCache> cache,
                       PagedKvCache::Create(transformer.backend(), layout, options.num_pages));
  const std::int64_t score_rows =
      std::clamp<std::int64_t>(kScoreLogitsBytes / (config.vocab_size * 4), 1, options.prefill_chunk_tokens);
  const std::int64_t logit_rows = std::max(score_rows, options.max_batch_sequences);
  SCD_ASSIGN_OR_RETURN(
      std::unique_ptr<Transformer::Workspace> workspace,
      transformer.CreateWorkspace(std::max(options.prefill_chunk_tokens, logit_rows), logit_rows));
  return std::make_unique<EngineImpl>(transformer, options, std::move(cache), std::move(workspace));
}

}  // namespace scd
