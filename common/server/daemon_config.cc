#include "common/server/daemon_config.h"

#include "absl/status/statusor.h"

namespace scd {

void ReadHostPort(YamlSection& section, std::string_view key, HostPort* value) {
  std::string text = value->ToString();
  section.String(key, &text);
  if (!section.Has(key)) return;
  const absl::StatusOr<HostPort> parsed = ParseHostPort(text);
  if (parsed.ok()) {
    *value = *parsed;
  } else {
    section.Fail(key, std::string(parsed.status().message()));
  }
}

void ReadLogLevel(YamlSection root, LogLevel* level) {
  YamlSection log = root.Section("log");
  log.Choice("level", level,
             {{"debug", LogLevel::kDebug},
              {"info", LogLevel::kInfo},
              {"warning", LogLevel::kWarning},
              {"error", LogLevel::kError}});
}

void ReadDaemonConfig(YamlSection root, DaemonConfig* config) {
  YamlSection server = root.Section("server");
  ReadHostPort(server, "listen", &config->grpc.listen);
  int max_message_mib = config->grpc.max_message_bytes >> 20;
  server.Int("max_message_mib", &max_message_mib, {.min = 2, .max = 1024, .unit = "MiB"});
  config->grpc.max_message_bytes = max_message_mib << 20;
  server.Int("keepalive_seconds", &config->grpc.keepalive_seconds,
             {.min = 10, .max = 7200, .unit = "seconds"});
  server.Int("shutdown_grace_seconds", &config->shutdown_grace_seconds,
             {.min = 0, .max = 3600, .unit = "seconds"});

  YamlSection tls = server.Section("tls");
  TlsFiles& files = config->grpc.tls;
  tls.String("certificate", &files.certificate);
  tls.String("key", &files.key);
  tls.String("client_ca", &files.client_ca);
  if (files.certificate.empty() != files.key.empty()) {
    tls.Fail(files.key.empty() ? "certificate" : "key", "certificate and key go together");
  }
  if (!files.client_ca.empty() && files.certificate.empty()) {
    tls.Fail("client_ca", "needs a certificate and a key of the server");
  }

  YamlSection metrics = root.Section("metrics");
  std::string off;
  if (metrics.Has("listen")) metrics.String("listen", &off);
  if (off == "off") {
    config->metrics_listen.reset();
  } else {
    HostPort listen = config->metrics_listen.value_or(HostPort{"127.0.0.1", 0});
    ReadHostPort(metrics, "listen", &listen);
    if (metrics.Has("listen")) config->metrics_listen = listen;
  }

  ReadLogLevel(root, &config->log_level);

  YamlSection trace = root.Section("trace");
  trace.String("dir", &config->trace.dir);
  trace.Int("max_files", &config->trace.max_files, {.min = 1, .max = 1'000'000, .unit = "files"});
}

}  // namespace scd
