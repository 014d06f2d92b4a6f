// "host:port" as it stands in configurations: "127.0.0.1:7070", "[::1]:7070", "localhost:0" (0: the system
// chooses).
#ifndef SCD_COMMON_SERVER_LISTEN_ADDRESS_H_
#define SCD_COMMON_SERVER_LISTEN_ADDRESS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace scd {

struct HostPort {
  std::string host;  // without brackets
  int port = 0;

  std::string ToString() const;
};

// INVALID_ARGUMENT saying what a listen address looks like.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

}  // namespace scd

#endif  // SCD_COMMON_SERVER_LISTEN_ADDRESS_H_
