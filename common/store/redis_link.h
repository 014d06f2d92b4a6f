// A few connections to one Redis server, taken in turn by threads that need one, and a thread that makes them
// and makes them again.
//
// Nobody who asks for a connection waits for one to be made: while the server is away, there is none. Each
// failure ends all connections. New ones are made at once where the last failure was long ago, else one try
// is made in each retry interval, so that a server that answers pings and nothing else costs its users one
// timeout in that time. An outage is one warning, and the first exchange after it another.
#ifndef SCD_COMMON_STORE_REDIS_LINK_H_
#define SCD_COMMON_STORE_REDIS_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/store/redis_connection.h"

namespace scd {

struct RedisLinkOptions {
  RedisServer server;
  absl::Duration timeout = absl::Milliseconds(500);  // of one exchange with the server, connecting included
  absl::Duration retry_interval = absl::Seconds(5);
  std::function<void(const std::string&)> warn;  // may be empty; from any thread, without locks
};

// Thread-safe.
class RedisLink {
 public:
  // Waits for the first try to connect, whatever comes of it.
  explicit RedisLink(RedisLinkOptions options);
  RedisLink(const RedisLink&) = delete;
  RedisLink& operator=(const RedisLink&) = delete;
  // Nothing is lent any more.
  ~RedisLink();

  // A connection while it is lent. Given back when it goes.
  class Lease {
   public:
    Lease() = default;
    Lease(RedisLink* link, std::unique_ptr<RedisConnection> connection, std::uint64_t generation)
        : link_(link), connection_(std::move(connection)), generation_(generation) {}
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (connection_ != nullptr) link_->GiveBack(std::move(connection_), generation_);
    }

    // False: the server is away, or others had all connections for too long.
    explicit operator bool() const { return connection_ != nullptr; }
    RedisConnection& operator*() const { return *connection_; }
    // Which connecting it comes from; more than 0, and more after each outage.
    std::uint64_t generation() const { return generation_; }
    // It is of no more use, and the server is looked at anew.
    void Fail(const absl::Status& status) {
      connection_.reset();
      link_->Failed(generation_, status);
    }

   private:
    RedisLink* link_ = nullptr;
    std::unique_ptr<RedisConnection> connection_;
    std::uint64_t generation_ = 0;
  };
  // Waits at most the timeout for others to give one back.
  Lease Take();

  bool up() const;
  // Tries to connect that failed.
  std::int64_t num_failed_tries() const;
  absl::Time Deadline() const { return absl::Now() + options_.timeout; }

 private:
  static constexpr int kConnections = 3;

  void GiveBack(std::unique_ptr<RedisConnection> connection, std::uint64_t generation);
  void Failed(std::uint64_t generation, const absl::Status& status);
  void GoDown(const absl::Status& status);
  void Run();
  void Connect();

  const RedisLinkOptions options_;

  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<RedisConnection>> idle_ ABSL_GUARDED_BY(mutex_);
  bool up_ ABSL_GUARDED_BY(mutex_) = false;
  bool tried_ ABSL_GUARDED_BY(mutex_) = false;  // once, since the start
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t num_failed_tries_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time next_try_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time last_failure_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time down_since_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool warned_ ABSL_GUARDED_BY(mutex_) = false;  // of the outage that goes on

  std::jthread thread_;  // last: it uses everything above
};

}  // namespace scd

#endif  // SCD_COMMON_STORE_REDIS_LINK_H_
