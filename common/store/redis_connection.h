// One connection to a Redis or Valkey server: commands go out in pipelines, replies come back in order.
//
// A server's replies are outside input. Whatever it sends or keeps back, a call ends by its deadline and
// holds no more of a reply than it was told to; a connection that has failed once is of no more use. Memory
// is taken for what has arrived, never for what a length claims.
#ifndef SCD_COMMON_STORE_REDIS_CONNECTION_H_
#define SCD_COMMON_STORE_REDIS_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

struct redisContext;
struct redisReader;

namespace scd {

// Where a server is, and as whom to speak to it.
struct RedisServer {
  std::string host;  // empty: unix_path counts
  int port = 0;
  std::string unix_path;
  int database = 0;
  std::string user;      // empty: the server's default user
  std::string password;  // empty: none is sent; it stands in no message

  // "host:port" or "unix:/path".
  std::string ToString() const;
};

// INVALID_ARGUMENT unless it is "host:port", "[address]:port" or "unix:/path".
absl::StatusOr<RedisServer> ParseRedisAddress(absl::string_view text);

struct RedisReply {
  enum class Kind : std::uint8_t { kNil, kInteger, kStatus, kString, kError, kArray };
  Kind kind = Kind::kNil;
  std::int64_t integer = 0;
  std::shared_ptr<const std::string> text;  // of kStatus, kString and kError
  std::vector<RedisReply> elements;         // of kArray: no arrays

  bool is(Kind other) const { return kind == other; }
  // A server's error as it may stand in a log.
  std::string ErrorText() const;
};

// Not thread-safe.
class RedisConnection {
 public:
  // Connects, gives name and password, chooses the database and waits for the answer to a PING. UNAVAILABLE,
  // DEADLINE_EXCEEDED, PERMISSION_DENIED or DATA_LOSS. A name is resolved by the system's resolver in the
  // system's own time.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Open(const RedisServer& server,
                                                               absl::Time deadline);
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;
  ~RedisConnection();

  // One more command for the next Send.
  void Append(absl::Span<const absl::string_view> arguments);
  // Sends all that was appended.
  absl::Status Send(absl::Time deadline);
  // The next reply. RESOURCE_EXHAUSTED for one of more than max_bytes, DATA_LOSS for what is none.
  absl::StatusOr<RedisReply> Read(absl::Time deadline, std::size_t max_bytes = kSmallReplyBytes);
  // Append, Send and Read of one command; an error that the server replies is kError here too.
  absl::StatusOr<RedisReply> Call(absl::Span<const absl::string_view> arguments, absl::Time deadline);

  static constexpr std::size_t kSmallReplyBytes = std::size_t{64} << 10;

 private:
  RedisConnection(redisContext* context, std::string address);
  absl::Status Greet(const RedisServer& server, absl::Time deadline);
  // Until the socket is ready for `events` (of poll).
  absl::Status Wait(int events, absl::Time deadline) const;
  absl::Status Error(absl::StatusCode code, absl::string_view what) const;
  absl::Status Receive(absl::Time deadline);

  redisContext* const context_;
  redisReader* const reader_;
  const std::string address_;
  std::string unsent_;
};

}  // namespace scd

#endif  // SCD_COMMON_STORE_REDIS_CONNECTION_H_
