#include "tests/support/redis_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace scd::testing {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(20);

std::string ProgramInPath(absl::string_view name) {
  const char* path = std::getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    const std::string program = absl::StrCat(folder, "/", name);
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

// A listening socket on a port that the system chose.
int Listen(int* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd, 16) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  *port = ntohs(address.sin_port);
  return fd;
}

}  // namespace

bool HasRedisServer() {
  return !ProgramInPath("redis-server").empty();
}

absl::StatusOr<std::unique_ptr<RedisServerProcess>> RedisServerProcess::Start(
    std::vector<std::string> settings, std::string password) {
  int port = 0;
  close(Listen(&port));
  std::unique_ptr<RedisServerProcess> server(
      new RedisServerProcess(port, std::move(settings), std::move(password)));
  if (absl::Status status = server->Restart(); !status.ok()) return status;
  return server;
}

absl::Status RedisServerProcess::Restart() {
  Kill();
  std::vector<std::string> arguments = {ProgramInPath("redis-server"),
                                        "--bind",
                                        "127.0.0.1",
                                        "--port",
                                        std::to_string(port_),
                                        "--unixsocket",
                                        folder_.File("socket"),
                                        "--save",
                                        "",
                                        "--appendonly",
                                        "no",
                                        "--dir",
                                        folder_.path(),
                                        "--logfile",
                                        folder_.File("log")};
  arguments.insert(arguments.end(), settings_.begin(), settings_.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    // A test that is killed takes it along.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    execv(argv[0], argv.data());
    _exit(127);
  }
  const absl::Time deadline = absl::Now() + kStartTimeout;
  RedisServer server = unix_socket();
  server.password = password_;
  absl::Status status;
  do {
    status = RedisConnection::Open(server, absl::Now() + absl::Seconds(1)).status();
    if (status.ok()) return status;
    absl::SleepFor(absl::Milliseconds(10));
  } while (absl::Now() < deadline);
  return absl::UnavailableError(absl::StrCat(status.message(), "; its log: ", ReadFile(folder_.File("log"))));
}

void RedisServerProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

void RedisServerProcess::Signal(int signal) const {
  kill(pid_, signal);
}

RedisServerProcess::~RedisServerProcess() {
  Kill();
}

RedisReply RedisServerProcess::Command(const std::vector<std::string>& arguments) const {
  RedisServer server = unix_socket();
  server.password = password_;
  const absl::Time deadline = absl::Now() + absl::Seconds(5);
  auto connection = RedisConnection::Open(server, deadline);
  if (!connection.ok()) return {};
  const std::vector<absl::string_view> views(arguments.begin(), arguments.end());
  absl::StatusOr<RedisReply> reply = (*connection)->Call(views, deadline);
  return reply.ok() ? *std::move(reply) : RedisReply{};
}

FakeRedisServer::FakeRedisServer(Speak speak) : speak_(std::move(speak)) {
  listener_ = Listen(&port_);
  acceptor_ = std::thread([this] { Accept(); });
}

FakeRedisServer::~FakeRedisServer() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  for (const int fd : connections_) shutdown(fd, SHUT_RDWR);
  for (std::thread& thread : threads_) thread.join();
  for (const int fd : connections_) close(fd);
  close(listener_);
}

void FakeRedisServer::Accept() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const std::lock_guard lock(mutex_);
    connections_.push_back(fd);
    threads_.emplace_back([this, fd] { Serve(fd); });
  }
}

void FakeRedisServer::Serve(int fd) {
  std::string buffer(std::size_t{1} << 16, '\0');
  for (;;) {
    const ssize_t count = recv(fd, buffer.data(), buffer.size(), 0);
    if (count <= 0) return;
    const std::string answer = speak_(buffer.substr(0, static_cast<std::size_t>(count)));
    for (std::size_t sent = 0; sent < answer.size();) {
      const ssize_t written = send(fd, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
      if (written <= 0) return;
      sent += static_cast<std::size_t>(written);
    }
  }
}

RedisServer FakeRedisServer::server() const {
  RedisServer server;
  server.host = "127.0.0.1";
  server.port = port_;
  return server;
}

std::int64_t FakeRedisServer::num_connections() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(connections_.size());
}

}  // namespace scd::testing
