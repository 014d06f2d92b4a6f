// A daemon inside the test's process, with its real gRPC server on a free port of loopback.
#ifndef SCD_TESTS_SUPPORT_IN_PROCESS_DAEMON_H_
#define SCD_TESTS_SUPPORT_IN_PROCESS_DAEMON_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/server/daemon.h"
#include "grpcpp/channel.h"

namespace scd::testing {

class InProcessDaemon {
 public:
  // Configures with `yaml`, opens the files and starts to serve. `port` 0: a free one.
  static absl::StatusOr<std::unique_ptr<InProcessDaemon>> Start(std::unique_ptr<Daemon> daemon,
                                                                const std::string& yaml, int port = 0);
  ~InProcessDaemon();

  int port() const;
  std::string address() const { return "127.0.0.1:" + std::to_string(port()); }
  // What a scrape of the metrics gives.
  std::string Metrics() const;
  // The value of a metric without labels, or of the first line that begins with `name`; -1 where there is
  // none.
  double Metric(const std::string& name) const;
  std::int64_t num_in_flight() const;

  // The drain of a daemon that was told to stop.
  void Shutdown(absl::Duration grace);

 private:
  struct Parts;
  InProcessDaemon();
  std::unique_ptr<Parts> parts_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_SUPPORT_IN_PROCESS_DAEMON_H_
