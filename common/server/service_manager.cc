#include "common/server/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iostream>

#include "absl/strings/str_cat.h"

namespace scd {

absl::Status NotifyServiceManager(const std::string& socket, absl::string_view state) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.size() < 2 || (socket[0] != '/' && socket[0] != '@') ||
      socket.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("NOTIFY_SOCKET: no Unix socket address: ", socket));
  }
  std::memcpy(address.sun_path, socket.data(), socket.size());
  if (socket[0] == '@') address.sun_path[0] = '\0';
  // An abstract name is as long as the address says; a path ends with its zero.
  const std::size_t end = socket.size() + (socket[0] == '/' ? 1 : 0);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + end);

  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "NOTIFY_SOCKET: socket");
  const ssize_t sent =
      sendto(fd, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size);
  const int error = errno;
  close(fd);
  if (sent != static_cast<ssize_t>(state.size())) {
    return absl::ErrnoToStatus(error, absl::StrCat("NOTIFY_SOCKET: ", socket));
  }
  return absl::OkStatus();
}

std::function<void(const DaemonAddresses&)> ReadyNotice(const char* socket) {
  if (socket == nullptr || *socket == '\0') return {};
  return [socket = std::string(socket)](const DaemonAddresses& addresses) {
    const absl::Status status =
        NotifyServiceManager(socket, absl::StrCat("READY=1\nSTATUS=Serving on ", addresses.grpc.ToString()));
    if (!status.ok()) std::cerr << status.message() << std::endl;
  };
}

}  // namespace scd
