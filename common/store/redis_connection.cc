#include "common/store/redis_connection.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using Kind = RedisReply::Kind;

constexpr std::size_t kChunkBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxErrorText = 200;
// Elements of an array; no command that is sent here is answered with more.
constexpr int kMaxElements = 1024;

// --- what hiredis's reader makes of a reply: objects of ours ---

// Where the object of a task goes: a reply of its own, or its place in the array around it.
RedisReply* Place(const redisReadTask* task) {
  if (task->parent == nullptr) return new RedisReply;
  return &static_cast<RedisReply*>(task->parent->obj)->elements[static_cast<std::size_t>(task->idx)];
}

void* MakeString(const redisReadTask* task, char* text, std::size_t size) {
  RedisReply* reply = Place(task);
  reply->kind = task->type == REDIS_REPLY_ERROR    ? Kind::kError
                : task->type == REDIS_REPLY_STATUS ? Kind::kStatus
                                                   : Kind::kString;
  reply->text = std::make_shared<const std::string>(text, size);
  return reply;
}

// Null makes the reader fail. The type of the size is another in each major version of hiredis.
template <typename Size>
void* MakeArray(const redisReadTask* task, Size size) {
  if (task->parent != nullptr || size > static_cast<Size>(kMaxElements)) return nullptr;
  RedisReply* reply = Place(task);
  reply->kind = Kind::kArray;
  reply->elements.resize(static_cast<std::size_t>(size));
  return reply;
}

void* MakeInteger(const redisReadTask* task, long long value) {
  RedisReply* reply = Place(task);
  reply->kind = Kind::kInteger;
  reply->integer = value;
  return reply;
}

void* MakeNil(const redisReadTask* task) {
  return Place(task);
}

void FreeReply(void* reply) {
  delete static_cast<RedisReply*>(reply);
}

#if HIREDIS_MAJOR >= 1
// Of the protocol's third version, which nobody has asked for.
void* RefuseDouble(const redisReadTask*, double, char*, std::size_t) {
  return nullptr;
}

void* RefuseBool(const redisReadTask*, int) {
  return nullptr;
}
#endif

redisReplyObjectFunctions MakeReplyFunctions() {
  redisReplyObjectFunctions functions = {};
  functions.createString = MakeString;
  functions.createArray = MakeArray;
  functions.createInteger = MakeInteger;
  functions.createNil = MakeNil;
#if HIREDIS_MAJOR >= 1
  functions.createDouble = RefuseDouble;
  functions.createBool = RefuseBool;
#endif
  functions.freeObject = FreeReply;
  return functions;
}

redisReplyObjectFunctions& ReplyFunctions() {
  static redisReplyObjectFunctions functions = MakeReplyFunctions();
  return functions;
}

}  // namespace

std::string RedisServer::ToString() const {
  if (host.empty()) return absl::StrCat("unix:", unix_path);
  const bool brackets = absl::StrContains(host, ':');
  return absl::StrCat(brackets ? "[" : "", host, brackets ? "]:" : ":", port);
}

absl::StatusOr<RedisServer> ParseRedisAddress(absl::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("'", absl::CHexEscape(text), "' is neither host:port nor unix:/path"));
  RedisServer server;
  if (absl::StartsWith(text, "unix:")) {
    server.unix_path = std::string(text.substr(5));
    // The longest that an address of the system holds.
    const bool fits = server.unix_path.size() > 1 && server.unix_path.size() < 108;
    return fits && server.unix_path[0] == '/' ? absl::StatusOr<RedisServer>(server) : wrong;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return wrong;
  absl::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (absl::StrContains(host, ':')) {
    return wrong;
  }
  const absl::string_view port = text.substr(colon + 1);
  const bool digits = std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  if (host.empty() || host.find_first_of(absl::string_view("[]\0", 3)) != absl::string_view::npos ||
      !digits || !absl::SimpleAtoi(port, &server.port) || server.port < 1 || server.port > 65535) {
    return wrong;
  }
  server.host = std::string(host);
  return server;
}

std::string RedisReply::ErrorText() const {
  if (text == nullptr) return "an answer of another kind than asked for";
  return absl::CHexEscape(absl::string_view(*text).substr(0, kMaxErrorText));
}

RedisConnection::RedisConnection(redisContext* context, std::string address)
    : context_(context),
      reader_(redisReaderCreateWithFunctions(&ReplyFunctions())),
      address_(std::move(address)) {}

RedisConnection::~RedisConnection() {
  if (reader_ != nullptr) redisReaderFree(reader_);
  redisFree(context_);
}

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::Open(const RedisServer& server,
                                                                       absl::Time deadline) {
  redisContext* context = server.host.empty() ? redisConnectUnixNonBlock(server.unix_path.c_str())
                                              : redisConnectNonBlock(server.host.c_str(), server.port);
  if (context == nullptr) return absl::ResourceExhaustedError("no memory for a connection");
  std::unique_ptr<RedisConnection> connection(new RedisConnection(context, server.ToString()));
  if (connection->reader_ == nullptr) return absl::ResourceExhaustedError("no memory for a connection");
  if (context->err != 0) return connection->Error(absl::StatusCode::kUnavailable, context->errstr);
  SCD_RETURN_IF_ERROR(connection->Wait(POLLOUT, deadline));
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(context->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) {
    return connection->Error(absl::StatusCode::kUnavailable,
                             absl::ErrnoToStatus(error, "connecting").message());
  }
  if (!server.host.empty()) redisEnableKeepAlive(context);
  SCD_RETURN_IF_ERROR(connection->Greet(server, deadline));
  return connection;
}

absl::Status RedisConnection::Greet(const RedisServer& server, absl::Time deadline) {
  if (!server.password.empty()) {
    std::vector<absl::string_view> auth = {"AUTH"};
    if (!server.user.empty()) auth.push_back(server.user);
    auth.push_back(server.password);
    SCD_ASSIGN_OR_RETURN(const RedisReply reply, Call(auth, deadline));
    if (!reply.is(Kind::kStatus)) {
      // Not in the server's own words: they might repeat what it was given.
      const bool known = reply.text != nullptr && absl::StartsWith(*reply.text, "WRONGPASS");
      return Error(absl::StatusCode::kPermissionDenied,
                   known ? "the server does not take the user or the password (WRONGPASS)"
                         : "the server does not take the user or the password");
    }
  }
  if (server.database != 0) {
    const std::string database = absl::StrCat(server.database);
    SCD_ASSIGN_OR_RETURN(const RedisReply reply, Call({"SELECT", database}, deadline));
    if (!reply.is(Kind::kStatus)) {
      return Error(absl::StatusCode::kPermissionDenied,
                   absl::StrCat("database ", database, ": ", reply.ErrorText()));
    }
  }
  SCD_ASSIGN_OR_RETURN(const RedisReply reply, Call({"PING"}, deadline));
  if (reply.is(Kind::kStatus) && *reply.text == "PONG") return absl::OkStatus();
  const bool denied = reply.is(Kind::kError) && absl::StartsWith(*reply.text, "NO");
  return Error(denied ? absl::StatusCode::kPermissionDenied : absl::StatusCode::kUnavailable,
               reply.ErrorText());
}

absl::Status RedisConnection::Error(absl::StatusCode code, absl::string_view what) const {
  return absl::Status(code, absl::StrCat("redis at ", address_, ": ", what));
}

absl::Status RedisConnection::Wait(int events, absl::Time deadline) const {
  pollfd wanted = {.fd = context_->fd, .events = static_cast<short>(events), .revents = 0};
  for (;;) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) break;
    const std::int64_t ms = std::clamp<std::int64_t>(absl::ToInt64Milliseconds(left) + 1, 1, 3'600'000);
    const int ready = poll(&wanted, 1, static_cast<int>(ms));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) {
      return Error(absl::StatusCode::kUnavailable, absl::ErrnoToStatus(errno, "waiting").message());
    }
  }
  return Error(absl::StatusCode::kDeadlineExceeded, "no answer in time");
}

void RedisConnection::Append(absl::Span<const absl::string_view> arguments) {
  absl::StrAppend(&unsent_, "*", arguments.size(), "\r\n");
  for (const absl::string_view argument : arguments) {
    absl::StrAppend(&unsent_, "$", argument.size(), "\r\n", argument, "\r\n");
  }
}

absl::Status RedisConnection::Send(absl::Time deadline) {
  const std::string bytes = std::exchange(unsent_, {});
  for (std::size_t sent = 0; sent < bytes.size();) {
    // Not hiredis's own writing: that would end the process by SIGPIPE where the server has gone.
    const ssize_t count =
        send(context_->fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      SCD_RETURN_IF_ERROR(Wait(POLLOUT, deadline));
    } else if (errno != EINTR) {
      return Error(absl::StatusCode::kUnavailable, absl::ErrnoToStatus(errno, "sending").message());
    }
  }
  return absl::OkStatus();
}

absl::Status RedisConnection::Receive(absl::Time deadline) {
  std::array<char, kChunkBytes> chunk;
  for (;;) {
    SCD_RETURN_IF_ERROR(Wait(POLLIN, deadline));
    const ssize_t count = recv(context_->fd, chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (count == 0) return Error(absl::StatusCode::kUnavailable, "the server closed the connection");
    if (count > 0) {
      redisReaderFeed(reader_, chunk.data(), static_cast<std::size_t>(count));
      return absl::OkStatus();
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      return Error(absl::StatusCode::kUnavailable, absl::ErrnoToStatus(errno, "receiving").message());
    }
  }
}

absl::StatusOr<RedisReply> RedisConnection::Read(absl::Time deadline, std::size_t max_bytes) {
  for (;;) {
    void* object = nullptr;
    if (redisReaderGetReply(reader_, &object) != REDIS_OK) {
      return Error(absl::StatusCode::kDataLoss, "what it sends is no reply");
    }
    if (object != nullptr) {
      const std::unique_ptr<RedisReply> reply(static_cast<RedisReply*>(object));
      return std::move(*reply);
    }
    if (reader_->len - reader_->pos > max_bytes) {
      return Error(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("a reply of more than ", max_bytes, " bytes"));
    }
    SCD_RETURN_IF_ERROR(Receive(deadline));
  }
}

absl::StatusOr<RedisReply> RedisConnection::Call(absl::Span<const absl::string_view> arguments,
                                                 absl::Time deadline) {
  Append(arguments);
  SCD_RETURN_IF_ERROR(Send(deadline));
  return Read(deadline);
}

}  // namespace scd
