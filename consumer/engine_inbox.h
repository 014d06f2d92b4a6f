// What other threads leave for the engine's thread: new requests, and word about those that it has.
//
// Thread-safe. Also keeps the counts that Stats shows, because they decide whether a request may still be
// queued.
#ifndef SCD_CONSUMER_ENGINE_INBOX_H_
#define SCD_CONSUMER_ENGINE_INBOX_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "consumer/active_request.h"
#include "consumer/engine.h"

namespace scd {

// Word about one request: the end of its staging, or of itself.
struct EngineCommand {
  EngineRequestId id = 0;
  std::optional<std::int64_t> staged_end;  // absent in a command that is not about staging
  absl::Status failure;                    // OK in a command that is not about failing
};

class EngineInbox {
 public:
  struct Contents {
    std::vector<std::unique_ptr<ActiveRequest>> requests;
    std::vector<EngineCommand> commands;
  };

  explicit EngineInbox(std::int64_t max_queued_requests) : max_queued_requests_(max_queued_requests) {}

  // --- any thread ---

  // RESOURCE_EXHAUSTED where the queue is full, UNAVAILABLE after Stop.
  absl::Status Add(std::unique_ptr<ActiveRequest> request);
  // Ignored where the request is not known or has ended. A failure also stops its forward pass.
  void Send(EngineCommand command);
  // Makes Wait return: something outside changed that may let a request in.
  void Wake();
  // No request comes in any more, and forward passes of those that are there stop.
  void Stop();
  std::int64_t num_queued() const;
  std::int64_t num_running() const;

  // --- the engine's thread ---

  // Until there is something to take, Wake or Stop was called, or the time has come.
  void Wait(std::optional<std::chrono::steady_clock::time_point> until);
  Contents Take();
  bool stopped() const;
  void MarkAdmitted(EngineRequestId id);
  void MarkDone(EngineRequestId id);

 private:
  struct Known {
    std::stop_source stop;
    bool admitted = false;
  };
  bool HasNews() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopped_ || woken_ || !contents_.requests.empty() || !contents_.commands.empty();
  }

  const std::int64_t max_queued_requests_;
  mutable absl::Mutex mutex_;
  Contents contents_ ABSL_GUARDED_BY(mutex_);
  std::map<EngineRequestId, Known> known_ ABSL_GUARDED_BY(mutex_);  // added and not done
  std::int64_t num_queued_ ABSL_GUARDED_BY(mutex_) = 0;             // of known_, not admitted
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace scd

#endif  // SCD_CONSUMER_ENGINE_INBOX_H_
