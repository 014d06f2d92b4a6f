#include "common/server/service_manager.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The manager's end: a bound datagram socket. "@" opens an abstract address.
class Manager {
 public:
  explicit Manager(const std::string& name) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    bound_ = bind(fd_, reinterpret_cast<const sockaddr*>(&address), size) == 0;
  }
  ~Manager() { close(fd_); }

  bool bound() const { return bound_; }
  // What came within a second; empty: nothing.
  std::string Received() {
    pollfd event{fd_, POLLIN, 0};
    if (poll(&event, 1, 1000) != 1) return "";
    char text[256];
    const ssize_t size = recv(fd_, text, sizeof(text), 0);
    return size < 0 ? "" : std::string(text, static_cast<std::size_t>(size));
  }

 private:
  const int fd_;
  bool bound_ = false;
};

std::string Unique(const char* what) {
  return std::string(what) + std::to_string(getpid());
}

TEST(ServiceManagerTest, TellsSocketsInTheFileSystem) {
  const std::string path = ::testing::TempDir() + Unique("notify-");
  std::filesystem::remove(path);
  Manager manager(path);
  ASSERT_TRUE(manager.bound());
  EXPECT_TRUE(NotifyServiceManager(path, "READY=1").ok());
  EXPECT_EQ(manager.Received(), "READY=1");
  std::filesystem::remove(path);
}

TEST(ServiceManagerTest, TellsAbstractSockets) {
  const std::string name = Unique("@scd-notify-");
  Manager manager(name);
  ASSERT_TRUE(manager.bound());
  const auto notice = ReadyNotice(name.c_str());
  ASSERT_TRUE(notice);
  notice({{"127.0.0.1", 7070}, {"127.0.0.1", 9470}});
  const std::string text = manager.Received();
  EXPECT_THAT(text, StartsWith("READY=1\nSTATUS="));
  EXPECT_THAT(text, HasSubstr("127.0.0.1:7070"));
}

TEST(ServiceManagerTest, WithoutManagerNobodyIsTold) {
  EXPECT_FALSE(ReadyNotice(nullptr));
  EXPECT_FALSE(ReadyNotice(""));
}

TEST(ServiceManagerTest, WrongAndDeadSocketsAreNamed) {
  for (const std::string& socket :
       {std::string("relative"), std::string("@"), std::string("/") + std::string(200, 'a'), std::string()}) {
    const absl::Status status = NotifyServiceManager(socket, "READY=1");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("NOTIFY_SOCKET"));
  }
  const std::string nobody = ::testing::TempDir() + Unique("nobody-listens-");
  const absl::Status status = NotifyServiceManager(nobody, "READY=1");
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(nobody));

  ::testing::internal::CaptureStderr();
  ReadyNotice(nobody.c_str())({});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(nobody));
}

}  // namespace
}  // namespace scd
