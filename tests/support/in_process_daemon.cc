#include "tests/support/in_process_daemon.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/yaml_document.h"
#include "common/config/yaml_reader.h"
#include "kernels/status_macros.h"

namespace scd::testing {

struct InProcessDaemon::Parts {
  std::unique_ptr<Daemon> daemon;
  std::unique_ptr<Log> log = MakeStderrLog(LogLevel::kWarning);
  MetricsRegistry metrics;
  RequestTracker requests;
  bool started = false;
  std::unique_ptr<GrpcServer> server;
};

InProcessDaemon::InProcessDaemon() : parts_(std::make_unique<Parts>()) {}

absl::StatusOr<std::unique_ptr<InProcessDaemon>> InProcessDaemon::Start(std::unique_ptr<Daemon> daemon,
                                                                        const std::string& yaml, int port) {
  std::unique_ptr<InProcessDaemon> self(new InProcessDaemon());
  Parts& parts = *self->parts_;
  parts.daemon = std::move(daemon);
  SCD_ASSIGN_OR_RETURN(const YamlDocument document, YamlDocument::Parse(yaml, "test.yaml"));
  YamlReader reader(document);
  DaemonConfig config = parts.daemon->default_config();
  ReadDaemonConfig(reader.root(), &config);
  parts.daemon->Configure(reader.root());
  SCD_RETURN_IF_ERROR(reader.Finish());
  SCD_RETURN_IF_ERROR(parts.daemon->OpenFiles());
  SCD_ASSIGN_OR_RETURN(const std::vector<NamedService> services,
                       parts.daemon->Start({*parts.log, parts.metrics, parts.requests}));
  parts.started = true;
  config.grpc.listen = {"127.0.0.1", port};
  SCD_ASSIGN_OR_RETURN(parts.server, GrpcServer::Start(config.grpc, services));
  return self;
}

InProcessDaemon::~InProcessDaemon() {
  Shutdown(absl::ZeroDuration());
  if (!parts_->started) return;
  parts_->metrics.ClearGauges();
  parts_->daemon->Stop();
}

void InProcessDaemon::Shutdown(absl::Duration grace) {
  if (parts_->server == nullptr) return;
  parts_->server->SetServing(false);
  parts_->requests.StartDraining();
  if (!parts_->requests.WaitIdle(grace)) {
    parts_->daemon->CancelRequests();
    parts_->requests.WaitIdle(absl::Seconds(1));
  }
  parts_->server->Shutdown(absl::ZeroDuration());
  parts_->server.reset();
}

int InProcessDaemon::port() const {
  return parts_->server->port();
}

std::string InProcessDaemon::Metrics() const {
  return parts_->metrics.Serialize();
}

double InProcessDaemon::Metric(const std::string& name) const {
  const std::string text = absl::StrCat("\n", Metrics());
  const std::size_t at = text.find(absl::StrCat("\n", name));
  if (at == std::string::npos) return -1;
  const std::size_t end = text.find('\n', at + 1);
  const std::string line = text.substr(at + 1, end - at - 1);
  return std::strtod(line.c_str() + line.rfind(' '), nullptr);
}

std::int64_t InProcessDaemon::num_in_flight() const {
  return parts_->requests.num_in_flight();
}

}  // namespace scd::testing
