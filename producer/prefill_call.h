// One Prefill stream: header, frames, trailer, with one write in flight and a bounded queue behind it.
//
// The codes come from the engine, which pauses while the queue is full, or all of them from the code store.
// Whatever ends the stream early (a client that
// went away, a deadline, a stalled reader, a shutdown) drops the queue and cancels the engine's job at once.
#ifndef SCD_PRODUCER_PREFILL_CALL_H_
#define SCD_PRODUCER_PREFILL_CALL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/server/log.h"
#include "common/server/metrics.h"
#include "common/server/request_tracker.h"
#include "common/store/stored_codes.h"
#include "common/trace/trace_folder.h"
#include "grpcpp/support/server_callback.h"
#include "producer/code_outbox.h"
#include "producer/prefill_engine.h"
#include "producer/prefill_job.h"
#include "producer/stall_watch.h"
#include "scd/v1/producer.pb.h"

namespace scd {

// What all calls share; outlives them.
struct PrefillCallEnvironment {
  PrefillEngine& engine;
  Log& log;
  TransferMetrics& metrics;
  RequestMetrics& ended_calls;
  StallWatch& stall_watch;
  TraceFolder* traces = nullptr;  // null: requests are not traced
  std::int64_t queue_frames = 64;
  absl::Duration stall_timeout = absl::Seconds(30);
};

// Owns itself until gRPC and the engine have both let go of it.
class PrefillCall final : public grpc::ServerWriteReactor<v1::PrefillResponse>,
                          public PrefillJob,
                          public StallWatch::Watched,
                          public std::enable_shared_from_this<PrefillCall> {
 public:
  static std::shared_ptr<PrefillCall> Create(grpc::CallbackServerContext* context,
                                             const PrefillCallEnvironment& environment,
                                             std::string request_id);

  // Refuse, or Accept and then one of the others, from any thread; they do nothing where the call has ended
  // meanwhile. `lease` ends when nothing of the call is left; the call is ended with UNAVAILABLE when
  // `shutdown` stops. The end of the codes in `header` is that of the prompt.
  void Refuse(const absl::Status& status);
  void Accept(v1::PrefillHeader header, RequestTracker::Lease lease, const std::stop_token& shutdown);
  // `known`: codes that the store has already (PrefillEngine::Submit).
  void StartPrefill(PrefillInput input, StoredCodes known);
  // The codes end with these.
  void StartStored(const LayerPlan& plan, StoredCodes codes);

  // Null: the call is not traced.
  const std::shared_ptr<RequestTrace>& trace() const { return trace_; }

  // PrefillJob
  const PrefillInput& input() const override { return input_; }
  void Begin(std::int64_t num_stored_tokens) override;
  bool HasRoom() const override;
  void Deliver(LayerCode code) override;
  void DeliverStored(StoredCodes codes) override;
  void Complete(const absl::Status& status, const PrefillReport& report) override;

  // StallWatch::Watched
  void CheckStall(absl::Time now) override;

  // ServerWriteReactor
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  PrefillCall(grpc::CallbackServerContext* context, const PrefillCallEnvironment& environment,
              std::string request_id);

  // Starts the next write, or finishes where there is nothing left to write.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TraceWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool QueueHasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishWith(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the call now and takes its job out of the engine.
  void Abandon(const absl::Status& status);
  void Report() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::CallbackServerContext* const context_;
  const PrefillCallEnvironment& environment_;
  const std::string request_id_;
  const absl::Time started_;
  const std::shared_ptr<RequestTrace> trace_;  // null: not traced

  PrefillInput input_;  // set by StartPrefill, then constant
  // Set by Accept, then constant.
  RequestTracker::Lease lease_;
  std::optional<std::stop_callback<std::function<void()>>> on_shutdown_;

  mutable absl::Mutex mutex_;
  v1::PrefillHeader header_ ABSL_GUARDED_BY(mutex_);
  CodeOutbox outbox_ ABSL_GUARDED_BY(mutex_);
  v1::PrefillResponse in_flight_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time write_started_ ABSL_GUARDED_BY(mutex_);
  std::optional<TraceSpan> write_span_ ABSL_GUARDED_BY(mutex_);
  bool complete_ ABSL_GUARDED_BY(mutex_) = false;  // no more codes come
  bool trailer_written_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // Finish was called
  absl::Status status_ ABSL_GUARDED_BY(mutex_);    // with which
  v1::PrefillTrailer trailer_ ABSL_GUARDED_BY(mutex_);

  std::shared_ptr<PrefillCall> self_;  // until OnDone
};

}  // namespace scd

#endif  // SCD_PRODUCER_PREFILL_CALL_H_
