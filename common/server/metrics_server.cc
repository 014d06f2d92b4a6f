#include "common/server/metrics_server.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "prometheus/exposer.h"

namespace scd {

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const HostPort& listen,
                                                                    const MetricsRegistry& registry) {
  std::string reason = "the address is in use or not of this machine";
  try {
    const std::vector<std::string> options = {
        "listening_ports", listen.ToString(), "num_threads", "2", "request_timeout_ms", "10000"};
    auto exposer = std::make_unique<prometheus::Exposer>(options);
    const std::vector<int> ports = exposer->GetListeningPorts();
    if (!ports.empty()) {
      exposer->RegisterCollectable(registry.collectable());
      HostPort address = listen;
      address.port = ports.front();
      return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(address), std::move(exposer)));
    }
  } catch (const std::exception& e) {
    absl::StrAppend(&reason, " (", e.what(), ")");
  }
  return absl::UnavailableError(absl::StrCat("cannot serve metrics on ", listen.ToString(), ": ", reason));
}

MetricsServer::MetricsServer(HostPort address, std::unique_ptr<prometheus::Exposer> exposer)
    : address_(std::move(address)), exposer_(std::move(exposer)) {}

MetricsServer::~MetricsServer() = default;

}  // namespace scd
