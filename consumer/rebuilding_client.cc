#include "consumer/rebuilding_client.h"

#include <deque>
#include <functional>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/trace/code_detail.h"
#include "consumer/group_recomputer.h"
#include "consumer/rebuilder_cache.h"
#include "consumer/task_thread.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// What all transfers share; but for the mutex and what it guards, the worker's alone.
struct Rebuilding {
  Rebuilding(const Bundle& bundle, const Transformer& transformer, std::int64_t max_cached_plans,
             std::unique_ptr<Stream> backend_stream)
      : backend(transformer.backend()),
        cache(bundle, transformer, max_cached_plans),
        recomputer(transformer),
        stream(std::move(backend_stream)) {}

  // Waits for all that was queued. Its error is also that of every transfer with work before it.
  absl::Status Synchronize() {
    const absl::Status status = backend.Synchronize(*stream);
    if (!status.ok()) {
      ++num_failures;
      last_failure = status;
    }
    return status;
  }

  Backend& backend;
  RebuilderCache cache;
  GroupRecomputer recomputer;
  const std::unique_ptr<Stream> stream;
  std::int64_t num_failures = 0;
  absl::Status last_failure;

  absl::Mutex mutex;
  std::int64_t running ABSL_GUARDED_BY(mutex) = 0;

  TaskThread worker;  // last: it ends before what its tasks use
};

double MsSince(absl::Time start) {
  return absl::ToDoubleMilliseconds(absl::Now() - start);
}

// Codes go from the stream's thread to the worker's through codes_; the stream reads on as the worker
// releases places. The task that ends the transfer is the last that the worker runs for it, so nothing
// touches the pages afterwards.
//
// Rows of the residual stream keep their places until the native head is there, which the recomputed layers
// attend to; a transfer whose stream has ended waits for it too.
class RebuildingTransfer final : public Transfer,
                                 public CodeSink,
                                 public std::enable_shared_from_this<RebuildingTransfer> {
 public:
  RebuildingTransfer(Rebuilding& shared, TransferJob job) : shared_(shared), job_(std::move(job)) {
    whole_.emplace(trace(), TraceTrack::kTransfer, "transfer",
                   TraceDetail{.first_token = job_.range.begin, .tokens = job_.range.size()});
  }

  void Start(CodeClient& client) {
    CodeRequest request;
    request.request_id = job_.request_id;
    request.prompt = job_.prompt;
    request.plan = job_.plan;
    request.range = job_.range;
    request.max_uncoded_tokens = job_.max_uncoded_tokens;
    request.no_code_store = job_.no_code_store;
    request.connect_anew = job_.connect_anew;
    request.deadline = job_.deadline;
    request.trace = job_.trace;
    std::shared_ptr<CodeStream> stream = client.Prepare(std::move(request), shared_from_this());
    {
      absl::MutexLock lock(&mutex_);
      stream_ = stream;
    }
    shared_.worker.Post([self = shared_from_this()] { self->MakeReady(); });
    if (job_.plan.recomputed()) {
      job_.sequence->WhenValid(job_.range.begin, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->PostUnlessFinished([self] { self->HeadIsValid(); });
      });
    }
    stream->Start();
  }

  void Cancel() override {
    stop_.request_stop();
    std::shared_ptr<CodeStream> stream;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      stream = stream_;
    }
    if (stream != nullptr) stream->Cancel();
    // The stream may have ended before.
    PostUnlessFinished([self = shared_from_this()] { self->FinishIfDue(); });
  }

  void OnCode(LayerCode code) override {
    {
      absl::MutexLock lock(&mutex_);
      codes_.push_back(std::move(code));
      CountWaiting();
    }
    shared_.worker.Post([self = shared_from_this()] { self->RebuildNext(); });
  }

  void OnEnd(const CodeStreamEnd& end) override {
    shared_.worker.Post([self = shared_from_this(), end] {
      self->end_ = end;
      self->FinishIfDue();
    });
  }

 private:
  RequestTrace* trace() const { return job_.trace.get(); }

  void CountWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (trace() == nullptr) return;
    trace()->AddCount(TraceTrack::kRebuild, "codes waiting", static_cast<std::int64_t>(codes_.size()));
  }

  void MakeReady() {
    const TraceSpan span(trace(), TraceTrack::kRebuild, "ready the plan");
    NoteRebuildStatus(shared_.cache.Prepare(job_.plan));
  }

  void RebuildNext() {
    LayerCode code;
    {
      absl::MutexLock lock(&mutex_);
      code = std::move(codes_.front());
      codes_.pop_front();
      CountWaiting();
    }
    if (code.kind == CodeKind::kResidual) {
      residuals_.push_back(std::move(code));
      RecomputeWaiting();
      return;
    }
    Work("rebuild", code, [&] {
      if (!std::exchange(queued_, true)) failures_before_ = shared_.num_failures;
      return shared_.cache.Rebuild(job_.plan, code, *job_.sequence, *shared_.stream);
    });
  }

  void HeadIsValid() {
    head_is_valid_ = true;
    RecomputeWaiting();
    FinishIfDue();
  }

  void RecomputeWaiting() {
    while (!residuals_.empty() && (head_is_valid_ || !Wanted())) {
      const LayerCode code = std::move(residuals_.front());
      residuals_.pop_front();
      Work("recompute", code, [&] {
        return shared_.recomputer.Run(code, *job_.plan.recomputed(), *job_.sequence, stop_.get_token());
      });
    }
  }

  // Deals with one code, unless the transfer has failed, and gives its place back.
  template <typename Rebuild>
  void Work(std::string_view what, const LayerCode& code, Rebuild rebuild) {
    if (Wanted()) {
      const TraceSpan span(trace(), TraceTrack::kRebuild, what, DetailOf(code));
      const absl::Time start = absl::Now();
      NoteRebuildStatus(rebuild());
      rebuild_ms_ += MsSince(start);
    }
    std::shared_ptr<CodeStream> stream;
    {
      absl::MutexLock lock(&mutex_);
      stream = stream_;
    }
    stream->Release();
  }

  bool Wanted() {
    absl::MutexLock lock(&mutex_);
    return !cancelled_ && rebuild_status_.ok();
  }

  // The worker lives until the last transfer has finished.
  void PostUnlessFinished(std::function<void()> task) {
    absl::MutexLock lock(&mutex_);
    if (!finished_) shared_.worker.Post(std::move(task));
  }

  // Once the stream has ended, and every residual that is still wanted was dealt with.
  void FinishIfDue() {
    if (!end_) return;
    if (!end_->outcome.ok()) residuals_.clear();
    RecomputeWaiting();
    if (!residuals_.empty()) return;
    const CodeStreamEnd end = *std::exchange(end_, std::nullopt);
    Finish(end);
  }

  void NoteRebuildStatus(const absl::Status& status) {
    if (status.ok()) return;
    std::shared_ptr<CodeStream> stream;
    {
      absl::MutexLock lock(&mutex_);
      rebuild_status_.Update(status);
      stream = stream_;
    }
    if (stream != nullptr) stream->Cancel();
  }

  // Codes are rebuilt on the device while others arrive: until here nobody has waited for it. In failure too,
  // for the pages are given back.
  absl::Status WaitForDevice() {
    if (!queued_) return absl::OkStatus();
    const TraceSpan span(trace(), TraceTrack::kRebuild, "wait for the device");
    const absl::Time start = absl::Now();
    const absl::Status status = shared_.Synchronize();
    rebuild_ms_ += MsSince(start);
    return shared_.num_failures == failures_before_ ? status : shared_.last_failure;
  }

  void Finish(const CodeStreamEnd& end) {
    const absl::Status rebuilt = WaitForDevice();
    TransferResult result;
    result.outcome = end.outcome;
    result.stats = end.stats;
    std::shared_ptr<CodeStream> stream;
    {
      absl::MutexLock lock(&mutex_);
      finished_ = true;
      stream = std::move(stream_);
      rebuild_status_.Update(rebuilt);
      if (cancelled_) {
        result.outcome = {TransferReason::kCancelled, absl::CancelledError("the request ended")};
      } else if (!rebuild_status_.ok()) {
        // What no encoder can have written shows itself only when it is decoded.
        const bool corrupt = absl::IsDataLoss(rebuild_status_);
        result.outcome = {corrupt ? TransferReason::kCorruptFrame : TransferReason::kRebuild,
                          rebuild_status_};
      }
    }
    if (result.outcome.ok()) {
      const absl::Status valid = job_.sequence->MarkValid(end.range.begin, end.range.end);
      if (valid.ok()) {
        result.range = end.range;
      } else {
        result.outcome = {TransferReason::kRebuild, valid};
      }
    }
    job_.sequence.reset();
    whole_.reset();
    result.stats.rebuild_ms = rebuild_ms_;
    result.stats.total_ms = MsSince(start_);
    const auto done = std::move(job_.done);
    done(result);
    absl::MutexLock lock(&shared_.mutex);
    --shared_.running;
  }

  Rebuilding& shared_;
  TransferJob job_;  // sequence and done are touched by the worker's thread alone
  const absl::Time start_ = absl::Now();

  std::optional<TraceSpan> whole_;

  std::stop_source stop_;  // of recomputing

  // Of the worker's thread.
  double rebuild_ms_ = 0;
  bool queued_ = false;               // work on the shared stream
  std::int64_t failures_before_ = 0;  // shared_.num_failures as it was then
  bool head_is_valid_ = false;
  std::deque<LayerCode> residuals_;   // that wait for the native head
  std::optional<CodeStreamEnd> end_;  // of a stream whose transfer has yet to finish

  absl::Mutex mutex_;
  std::deque<LayerCode> codes_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<CodeStream> stream_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status rebuild_status_ ABSL_GUARDED_BY(mutex_);
};

class RebuildingClient final : public TransferClient {
 public:
  RebuildingClient(std::unique_ptr<CodeClient> client, std::unique_ptr<Rebuilding> shared)
      : client_(std::move(client)), shared_(std::move(shared)) {}

  ~RebuildingClient() override {
    absl::MutexLock lock(&shared_->mutex);
    const auto idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(shared_->mutex) { return shared_->running == 0; };
    shared_->mutex.Await(absl::Condition(&idle));
  }

  std::shared_ptr<Transfer> Start(TransferJob job) override {
    {
      absl::MutexLock lock(&shared_->mutex);
      ++shared_->running;
    }
    auto transfer = std::make_shared<RebuildingTransfer>(*shared_, std::move(job));
    transfer->Start(*client_);
    return transfer;
  }

 private:
  const std::unique_ptr<CodeClient> client_;
  const std::unique_ptr<Rebuilding> shared_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TransferClient>> CreateRebuildingClient(const Bundle& bundle,
                                                                       const Transformer& transformer,
                                                                       std::unique_ptr<CodeClient> client,
                                                                       const RebuildingOptions& options) {
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, transformer.backend().CreateStream());
  auto shared =
      std::make_unique<Rebuilding>(bundle, transformer, options.max_cached_plans, std::move(stream));
  SCD_RETURN_IF_ERROR(shared->cache.Prepare(options.default_plan));
  return std::make_unique<RebuildingClient>(std::move(client), std::move(shared));
}

}  // namespace scd
