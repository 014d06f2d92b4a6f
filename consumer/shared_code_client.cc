#include "consumer/shared_code_client.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/trace/code_detail.h"
#include "consumer/task_thread.h"

namespace scd {
namespace {

// Whether the store may help where a producer could not.
bool IsAway(const TransferOutcome& outcome) {
  return outcome.reason == TransferReason::kProducerUnavailable ||
         (outcome.reason == TransferReason::kRefused && absl::IsResourceExhausted(outcome.status));
}

// What all streams share. The worker asks the store, which may take its time, and hands codes over.
struct Sharing {
  Sharing(std::unique_ptr<CodeClient> client, SharedCodes& shared_codes, const SharedCodeOptions& settings)
      : producer(std::move(client)), codes(shared_codes), options(settings) {}

  const std::unique_ptr<CodeClient> producer;
  SharedCodes& codes;
  const SharedCodeOptions options;
  TaskThread worker;  // last: it ends before what its tasks use
};

// Hands over either what the producer's stream gives or what the store had, never both.
class SharedCodeStream final : public CodeStream,
                               public CodeSink,
                               public std::enable_shared_from_this<SharedCodeStream> {
 public:
  SharedCodeStream(Sharing& sharing, CodeRequest request, std::shared_ptr<CodeSink> sink)
      : sharing_(sharing),
        request_(std::move(request)),
        sink_(std::move(sink)),
        free_places_(std::max<std::int64_t>(sharing.options.queue_frames, 1)) {}

  void Start() override {
    if (sharing_.options.first && !request_.no_code_store) {
      PostLookup();
    } else {
      AskProducer();
    }
  }

  void Release() override {
    std::shared_ptr<CodeStream> stream;
    {
      const absl::MutexLock lock(&mutex_);
      stream = stream_;
      if (found_) ++free_places_;
      if (stream == nullptr) return PostHandOver();
    }
    stream->Release();
  }

  void Cancel() override {
    std::shared_ptr<CodeStream> stream;
    {
      const absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      stream = stream_;
      if (stream == nullptr) return PostHandOver();
    }
    stream->Cancel();
  }

  // --- from the producer's stream ---
  void OnCode(LayerCode code) override {
    from_producer_ = true;
    sink_->OnCode(std::move(code));
  }

  void OnEnd(const CodeStreamEnd& end) override {
    const bool ask_store = IsAway(end.outcome) && !from_producer_ && !request_.no_code_store && !looked_;
    {
      const absl::MutexLock lock(&mutex_);
      stream_.reset();
    }
    if (!ask_store) return End(end);
    failure_ = end;
    PostLookup();
  }

 private:
  void AskProducer() {
    std::shared_ptr<CodeStream> stream = sharing_.producer->Prepare(request_, shared_from_this());
    bool cancelled = false;
    {
      const absl::MutexLock lock(&mutex_);
      stream_ = stream;
      cancelled = cancelled_;
    }
    if (cancelled) stream->Cancel();
    stream->Start();
  }

  void PostLookup() {
    looked_ = true;
    sharing_.worker.Post([self = shared_from_this()] { self->Lookup(); });
  }

  // The client, and so the worker, lives until the last stream has ended.
  void PostHandOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!found_ || ended_) return;  // who looks at the store sees that it was cancelled
    sharing_.worker.Post([self = shared_from_this()] { self->HandOver(); });
  }

  // --- of the worker ---
  void Lookup() {
    std::optional<SharedCodes::Codes> found;
    if (!cancelled()) {
      const TraceSpan span(request_.trace.get(), TraceTrack::kTransfer, "ask the shared store");
      found = sharing_.codes.Find(request_);
    }
    if (cancelled()) return EndCancelled();
    if (!found) {
      if (failure_) return End(*failure_);
      return AskProducer();
    }
    codes_ = *std::move(found);
    {
      const absl::MutexLock lock(&mutex_);
      found_ = true;
    }
    HandOver();
  }

  // As many codes as there are places.
  void HandOver() {
    while (sink_ != nullptr) {
      if (cancelled()) return EndCancelled();
      if (absl::Now() >= request_.deadline) {
        return EndWith(TransferReason::kDeadline,
                       absl::DeadlineExceededError("the transfer's time budget is over"));
      }
      if (next_ == codes_.codes.size()) {
        CodeStreamEnd end;
        end.range = codes_.range;
        end.stats = stats_;
        return End(std::move(end));
      }
      {
        const absl::MutexLock lock(&mutex_);
        if (free_places_ == 0) return;
        --free_places_;
      }
      LayerCode& code = codes_.codes[next_++];
      stats_.code_bytes_by_kind[code.kind] += code.payload.size();
      stats_.received_bytes += code.payload.size();
      stats_.transfer_ms = absl::ToDoubleMilliseconds(absl::Now() - start_);
      if (next_ == 1) stats_.first_frame_ms = stats_.transfer_ms;
      if (request_.trace != nullptr) {
        request_.trace->AddMoment(TraceTrack::kReceive, "from the shared store", DetailOf(code));
      }
      sink_->OnCode(std::move(code));
    }
  }

  void EndCancelled() {
    EndWith(TransferReason::kCancelled, absl::CancelledError("the transfer was cancelled"));
  }

  void EndWith(TransferReason reason, const absl::Status& status) {
    CodeStreamEnd end;
    end.outcome = {reason, status};
    End(std::move(end));
  }

  void End(CodeStreamEnd end) {
    {
      const absl::MutexLock lock(&mutex_);
      ended_ = true;
    }
    if (end.outcome.ok() && !codes_.range.empty()) {
      end.stats.stored_tokens = end.stats.shared_store_tokens = end.range.size();
    }
    // The sink may hold this stream: neither keeps the other alive from here on.
    const std::shared_ptr<CodeSink> sink = std::move(sink_);
    sink->OnEnd(end);
  }

  bool cancelled() {
    const absl::MutexLock lock(&mutex_);
    return cancelled_;
  }

  Sharing& sharing_;
  const CodeRequest request_;
  const absl::Time start_ = absl::Now();

  // Of the producer's stream until it has ended, then of the worker: one of them at a time.
  std::shared_ptr<CodeSink> sink_;  // null: it has heard the end
  bool from_producer_ = false;      // codes were handed over
  bool looked_ = false;
  std::optional<CodeStreamEnd> failure_;  // of the producer
  SharedCodes::Codes codes_;
  std::size_t next_ = 0;
  TransferStats stats_;

  absl::Mutex mutex_;
  std::shared_ptr<CodeStream> stream_ ABSL_GUARDED_BY(mutex_);  // the producer's, while it runs
  bool found_ ABSL_GUARDED_BY(mutex_) = false;                  // the store serves it
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::int64_t free_places_ ABSL_GUARDED_BY(mutex_);
};

class SharedCodeClient final : public CodeClient {
 public:
  SharedCodeClient(std::unique_ptr<CodeClient> producer, SharedCodes& shared,
                   const SharedCodeOptions& options)
      : sharing_(std::move(producer), shared, options) {}

  std::shared_ptr<CodeStream> Prepare(CodeRequest request, std::shared_ptr<CodeSink> sink) override {
    return std::make_shared<SharedCodeStream>(sharing_, std::move(request), std::move(sink));
  }

 private:
  Sharing sharing_;
};

}  // namespace

std::unique_ptr<CodeClient> CreateSharedCodeClient(std::unique_ptr<CodeClient> producer, SharedCodes& shared,
                                                   const SharedCodeOptions& options) {
  return std::make_unique<SharedCodeClient>(std::move(producer), shared, options);
}

}  // namespace scd
