#include "common/store/redis_link.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace scd {

RedisLink::RedisLink(RedisLinkOptions options) : options_(std::move(options)) {
  thread_ = std::jthread([this] { Run(); });
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&tried_));
}

RedisLink::~RedisLink() {
  const absl::MutexLock lock(&mutex_);
  stopping_ = true;
}

RedisLink::Lease RedisLink::Take() {
  const absl::MutexLock lock(&mutex_);
  const auto decided = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !up_ || !idle_.empty(); };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&decided), options_.timeout) || !up_) return {};
  std::unique_ptr<RedisConnection> connection = std::move(idle_.back());
  idle_.pop_back();
  return {this, std::move(connection), generation_};
}

void RedisLink::GiveBack(std::unique_ptr<RedisConnection> connection, std::uint64_t generation) {
  absl::Duration away;
  {
    const absl::MutexLock lock(&mutex_);
    if (!up_ || generation != generation_) return;
    idle_.push_back(std::move(connection));
    if (!std::exchange(warned_, false)) return;
    away = absl::Now() - down_since_;
  }
  if (!options_.warn) return;
  options_.warn(absl::StrCat("code store: redis at ", options_.server.ToString(), " answers again, after ",
                             absl::FormatDuration(absl::Trunc(away, absl::Seconds(1)))));
}

void RedisLink::Failed(std::uint64_t generation, const absl::Status& status) {
  {
    // What was lent before an outage fails by it once more.
    const absl::MutexLock lock(&mutex_);
    if (generation != generation_ || !up_) return;
  }
  GoDown(status);
}

void RedisLink::GoDown(const absl::Status& status) {
  std::vector<std::unique_ptr<RedisConnection>> closed;
  {
    const absl::Time now = absl::Now();
    const absl::MutexLock lock(&mutex_);
    closed.swap(idle_);
    // One that breaks may be an old one; an outage is what a try to connect meets, what comes back soon, or
    // what no exchange has ended yet.
    const bool outage = !up_ || warned_ || now - last_failure_ < options_.retry_interval;
    next_try_ = outage ? now + options_.retry_interval : now;
    last_failure_ = now;
    up_ = false;
    if (!outage || std::exchange(warned_, true)) return;
    down_since_ = now;
  }
  if (!options_.warn) return;
  options_.warn(absl::StrCat("code store: ", status.message(), "; it is left out, and tried again every ",
                             absl::FormatDuration(options_.retry_interval)));
}

void RedisLink::Run() {
  for (;;) {
    {
      const absl::MutexLock lock(&mutex_);
      const auto down = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !up_; };
      mutex_.Await(absl::Condition(&down));
      mutex_.AwaitWithDeadline(absl::Condition(&stopping_), next_try_);
      if (stopping_) return;
    }
    Connect();
  }
}

void RedisLink::Connect() {
  std::vector<std::unique_ptr<RedisConnection>> connections;
  absl::Status status;
  const absl::Time deadline = Deadline();
  while (status.ok() && connections.size() < kConnections) {
    absl::StatusOr<std::unique_ptr<RedisConnection>> connection =
        RedisConnection::Open(options_.server, deadline);
    status = connection.status();
    if (connection.ok()) connections.push_back(*std::move(connection));
  }
  if (!status.ok()) GoDown(status);
  const absl::MutexLock lock(&mutex_);
  tried_ = true;
  if (!status.ok()) {
    ++num_failed_tries_;
    return;
  }
  idle_ = std::move(connections);
  ++generation_;
  up_ = true;
}

bool RedisLink::up() const {
  const absl::MutexLock lock(&mutex_);
  return up_;
}

std::int64_t RedisLink::num_failed_tries() const {
  const absl::MutexLock lock(&mutex_);
  return num_failed_tries_;
}

}  // namespace scd
