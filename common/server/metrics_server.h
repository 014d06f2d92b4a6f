// Serves a MetricsRegistry over HTTP at /metrics.
#ifndef SCD_COMMON_SERVER_METRICS_SERVER_H_
#define SCD_COMMON_SERVER_METRICS_SERVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/server/listen_address.h"
#include "common/server/metrics.h"

namespace prometheus {
class Exposer;
}  // namespace prometheus

namespace scd {

class MetricsServer {
 public:
  // UNAVAILABLE naming the address where it cannot listen.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const HostPort& listen,
                                                              const MetricsRegistry& registry);
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;
  ~MetricsServer();

  // With the port that it really listens on.
  const HostPort& address() const { return address_; }

 private:
  MetricsServer(HostPort address, std::unique_ptr<prometheus::Exposer> exposer);
  const HostPort address_;
  const std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace scd

#endif  // SCD_COMMON_SERVER_METRICS_SERVER_H_
