// Tells the service manager that started a daemon (systemd, units with Type=notify) when it serves, by the
// manager's own protocol: a datagram to the socket that it named in $NOTIFY_SOCKET.
#ifndef SCD_COMMON_SERVER_SERVICE_MANAGER_H_
#define SCD_COMMON_SERVER_SERVICE_MANAGER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/server/daemon.h"

namespace scd {

// Sends `state`, for example "READY=1", to a Unix socket: an absolute path, or "@name" for an abstract one.
absl::Status NotifyServiceManager(const std::string& socket, absl::string_view state);

// For RunDaemon: says READY=1, with the addresses as the status text. `socket` is the value of
// $NOTIFY_SOCKET; where it is null or empty nobody is told. A notice that fails is an error on standard
// error and no reason to end.
std::function<void(const DaemonAddresses&)> ReadyNotice(const char* socket);

}  // namespace scd

#endif  // SCD_COMMON_SERVER_SERVICE_MANAGER_H_
