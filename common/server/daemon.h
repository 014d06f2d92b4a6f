// The life of a daemon: command line, configuration, start, wait for a signal, drain, stop.
//
//   int main(int argc, char** argv) {
//     scd::ProducerDaemon daemon;
//     return scd::RunDaemon(daemon, argc, argv);
//   }
#ifndef SCD_COMMON_SERVER_DAEMON_H_
#define SCD_COMMON_SERVER_DAEMON_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/yaml_reader.h"
#include "common/server/command_line.h"
#include "common/server/daemon_config.h"
#include "common/server/grpc_server.h"
#include "common/server/log.h"
#include "common/server/metrics.h"
#include "common/server/request_tracker.h"
#include "common/trace/trace_folder.h"

namespace scd {

// What the frame lends to a daemon from Start on; outlives its services.
struct DaemonContext {
  Log& log;
  MetricsRegistry& metrics;
  RequestTracker& requests;       // each request holds a lease of it; scd_requests_in_flight
  TraceFolder* traces = nullptr;  // null: requests are not traced
};

// What one daemon adds. The calls come in this order, on one thread.
class Daemon {
 public:
  virtual ~Daemon() = default;

  virtual ProgramInfo program() const = 0;
  // Defaults of the shared sections, for example the ports.
  virtual DaemonConfig default_config() const = 0;

  // Reads the daemon's own keys; errors stay in the reader.
  virtual void Configure(YamlSection root) = 0;
  // Opens and checks every file that the configuration names: what --check does. Must not start anything.
  virtual absl::Status OpenFiles() = 0;
  // Makes the services; they live until Stop returns.
  virtual absl::StatusOr<std::vector<NamedService>> Start(const DaemonContext& context) = 0;
  // What it serves, for the one line that a start prints.
  virtual std::string Summary() const = 0;
  // The drain's time is over: ends what runs with UNAVAILABLE. What does not end so is cancelled by the
  // server.
  virtual void CancelRequests() = 0;
  // The server is down and no request is left: ends threads and frees everything. Called after Start only.
  virtual void Stop() = 0;
};

struct DaemonAddresses {
  HostPort grpc;
  HostPort metrics;  // port 0: off
};

// Returns the exit code. On SIGTERM or SIGINT: health says NOT_SERVING and new requests are UNAVAILABLE;
// running ones get shutdown_grace_seconds to end, then they are cancelled. A second signal ends the process
// at once. `on_serving` (may be empty) is called when requests are served, with the ports really used.
int RunDaemon(Daemon& daemon, int argc, const char* const* argv,
              const std::function<void(const DaemonAddresses&)>& on_serving = {});

}  // namespace scd

#endif  // SCD_COMMON_SERVER_DAEMON_H_
