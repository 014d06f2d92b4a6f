// The part of a daemon's YAML that all daemons share: where it listens, how it logs and how it ends.
#ifndef SCD_COMMON_SERVER_DAEMON_CONFIG_H_
#define SCD_COMMON_SERVER_DAEMON_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/config/yaml_reader.h"
#include "common/server/grpc_server.h"
#include "common/server/listen_address.h"
#include "common/server/log.h"
#include "common/trace/trace_folder.h"

namespace scd {

struct DaemonConfig {
  GrpcServerOptions grpc;  // server.*
  std::int64_t shutdown_grace_seconds =
      30;  // server.shutdown_grace_seconds: running requests get this long to end
  std::optional<HostPort> metrics_listen;  // metrics.listen; absent ("off"): no metrics over HTTP
  LogLevel log_level = LogLevel::kInfo;    // log.level
  TraceOptions trace;                      // trace.*
};

// Reads sections `server`, `metrics`, `log` and `trace` over what `config` holds. Errors stay in the reader.
void ReadDaemonConfig(YamlSection root, DaemonConfig* config);

// log.level of a configuration, also of programs that serve nothing.
void ReadLogLevel(YamlSection root, LogLevel* level);

// "host:port" of a key, for peers too. Errors stay in the reader.
void ReadHostPort(YamlSection& section, std::string_view key, HostPort* value);

}  // namespace scd

#endif  // SCD_COMMON_SERVER_DAEMON_CONFIG_H_
