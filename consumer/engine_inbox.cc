#include "consumer/engine_inbox.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace scd {

absl::Status EngineInbox::Add(std::unique_ptr<ActiveRequest> request) {
  absl::MutexLock lock(&mutex_);
  if (stopped_) return absl::UnavailableError("engine: shutting down");
  if (num_queued_ >= max_queued_requests_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("engine: ", num_queued_, " requests are queued already"));
  }
  ++num_queued_;
  known_.emplace(request->id(), Known{request->stop_source()});
  contents_.requests.push_back(std::move(request));
  return absl::OkStatus();
}

void EngineInbox::Send(EngineCommand command) {
  absl::MutexLock lock(&mutex_);
  const auto it = known_.find(command.id);
  if (it == known_.end()) return;
  // The command is there before the pass stops, so that whoever sees the stopped pass finds the reason.
  const bool fails = !command.failure.ok();
  contents_.commands.push_back(std::move(command));
  if (fails) it->second.stop.request_stop();
}

void EngineInbox::Wake() {
  absl::MutexLock lock(&mutex_);
  woken_ = true;
}

void EngineInbox::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  for (auto& [id, known] : known_) known.stop.request_stop();
}

std::int64_t EngineInbox::num_queued() const {
  absl::MutexLock lock(&mutex_);
  return num_queued_;
}

std::int64_t EngineInbox::num_running() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<std::int64_t>(known_.size()) - num_queued_;
}

void EngineInbox::Wait(std::optional<std::chrono::steady_clock::time_point> until) {
  const absl::Duration most =
      until ? absl::FromChrono(*until - std::chrono::steady_clock::now()) : absl::InfiniteDuration();
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &EngineInbox::HasNews), most);
}

EngineInbox::Contents EngineInbox::Take() {
  absl::MutexLock lock(&mutex_);
  woken_ = false;
  return std::exchange(contents_, Contents());
}

bool EngineInbox::stopped() const {
  absl::MutexLock lock(&mutex_);
  return stopped_;
}

void EngineInbox::MarkAdmitted(EngineRequestId id) {
  absl::MutexLock lock(&mutex_);
  const auto it = known_.find(id);
  if (it == known_.end() || it->second.admitted) return;
  it->second.admitted = true;
  --num_queued_;
}

void EngineInbox::MarkDone(EngineRequestId id) {
  absl::MutexLock lock(&mutex_);
  const auto it = known_.find(id);
  if (it == known_.end()) return;
  if (!it->second.admitted) --num_queued_;
  known_.erase(it);
}

}  // namespace scd
