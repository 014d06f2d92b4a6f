// A real redis-server for tests, in a folder of its own, on a free port and a unix socket; it keeps nothing
// on disk. And one that is none: it says whatever a test lets it say.
#ifndef SCD_TESTS_SUPPORT_REDIS_SERVER_H_
#define SCD_TESTS_SUPPORT_REDIS_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/store/redis_connection.h"
#include "tests/support/temp_dir.h"

namespace scd::testing {

// Skip with a reason where there is none; run_tests.sh takes a skip for a failure.
bool HasRedisServer();
inline constexpr char kNoRedisServer[] = "redis-server is not installed";

class RedisServerProcess {
 public:
  // `settings`: more arguments, {"--requirepass", "secret"}. Waits until it answers.
  static absl::StatusOr<std::unique_ptr<RedisServerProcess>> Start(std::vector<std::string> settings = {},
                                                                   std::string password = "");
  RedisServerProcess(const RedisServerProcess&) = delete;
  RedisServerProcess& operator=(const RedisServerProcess&) = delete;
  ~RedisServerProcess();  // kills it

  std::string tcp_address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string unix_address() const { return "unix:" + folder_.File("socket"); }
  RedisServer tcp() const { return *ParseRedisAddress(tcp_address()); }
  RedisServer unix_socket() const { return *ParseRedisAddress(unix_address()); }

  void Kill();  // all that it held is gone
  absl::Status Restart();
  void Signal(int signal) const;

  // One command, whose answer is the test's business.
  RedisReply Command(const std::vector<std::string>& arguments) const;

 private:
  RedisServerProcess(int port, std::vector<std::string> settings, std::string password)
      : port_(port), settings_(std::move(settings)), password_(std::move(password)) {}

  TempDir folder_;
  const int port_;
  const std::vector<std::string> settings_;
  const std::string password_;
  pid_t pid_ = 0;
};

// Speaks through a function: for the bytes that arrived on a connection, what is sent back. Bytes of one
// connection come to it in order, one call at a time for each connection.
class FakeRedisServer {
 public:
  using Speak = std::function<std::string(const std::string& received)>;
  explicit FakeRedisServer(Speak speak);
  FakeRedisServer(const FakeRedisServer&) = delete;
  FakeRedisServer& operator=(const FakeRedisServer&) = delete;
  ~FakeRedisServer();

  RedisServer server() const;
  std::int64_t num_connections() const;

 private:
  void Accept();
  void Serve(int fd);

  const Speak speak_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<int> connections_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_SUPPORT_REDIS_SERVER_H_
