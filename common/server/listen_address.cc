#include "common/server/listen_address.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace scd {

std::string HostPort::ToString() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  const auto error = [&] {
    return absl::InvalidArgumentError(absl::StrCat("expected host:port with a port from 0 to 65535, got \"",
                                                   std::string(text.substr(0, 80)), "\""));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return error();
  std::string_view host = text.substr(0, colon);
  const std::string port(text.substr(colon + 1));
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (host.find(':') == std::string_view::npos) return error();
  } else if (host.find(':') != std::string_view::npos) {
    return error();
  }
  const auto allowed = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == ':' || c == '-' || c == '_' || c == '%';
  };
  if (host.empty() || !std::all_of(host.begin(), host.end(), allowed)) return error();
  HostPort parsed;
  parsed.host = std::string(host);
  const bool digits = !port.empty() && port.size() <= 5 &&
                      std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || !absl::SimpleAtoi(port, &parsed.port) || parsed.port > 65535) return error();
  return parsed;
}

}  // namespace scd
