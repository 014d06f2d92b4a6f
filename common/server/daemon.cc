#include "common/server/daemon.h"

#include <unistd.h>

#include <condition_variable>
#include <iostream>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/config/yaml_document.h"
#include "common/server/metrics_server.h"
#include "common/server/signals.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// What cancelled requests get to say so to their clients.
constexpr absl::Duration kCancelTime = absl::Seconds(1);

absl::Status Configure(Daemon& daemon, const CommandLine& line, DaemonConfig* config) {
  SCD_ASSIGN_OR_RETURN(const YamlDocument document, YamlDocument::Load(line.config_path, line.overrides));
  YamlReader reader(document);
  ReadDaemonConfig(reader.root(), config);
  daemon.Configure(reader.root());
  SCD_RETURN_IF_ERROR(reader.Finish());
  if (line.trace_dir) config->trace.dir = *line.trace_dir;
  return absl::OkStatus();
}

// Null where requests are not traced.
absl::StatusOr<std::unique_ptr<TraceFolder>> OpenTraces(const TraceOptions& options,
                                                        const std::string& program, Log& log,
                                                        MetricsRegistry& metrics) {
  if (options.dir.empty()) return nullptr;
  const TraceOrigin origin{.program = program,
                           .side = program.substr(program.find('-') + 1),  // "scd-producer"
                           .process_id = getpid()};
  SCD_ASSIGN_OR_RETURN(
      std::unique_ptr<TraceFolder> folder,
      TraceFolder::Create(options, origin, [&log](const std::string& failure) { log.Warning(failure); }));
  metrics.AddCounter("scd_traces_written_total", "Timelines of requests that were written.",
                     [traces = folder.get()] { return static_cast<double>(traces->stats().written); });
  metrics.AddCounter("scd_traces_lost_total",
                     "Timelines of requests that could not be written, or of too many requests at once.",
                     [traces = folder.get()] { return static_cast<double>(traces->stats().lost); });
  return folder;
}

void WaitForStop(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock<std::mutex> lock(mutex);
  wake.wait(lock, stop, [] { return false; });
}

// Everything between a good start and the end, so that each part dies before what it uses.
absl::Status Serve(Daemon& daemon, const DaemonConfig& config, Log& log, const std::stop_token& stop,
                   const std::function<void(const DaemonAddresses&)>& on_serving) {
  const ProgramInfo program = daemon.program();
  MetricsRegistry metrics;
  InfoMetrics(metrics).SetBuild(program.name, kScdVersion);
  RequestTracker requests;
  metrics.AddGauge("scd_requests_in_flight", "Requests that are being worked on.",
                   [&requests] { return static_cast<double>(requests.num_in_flight()); });

  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<TraceFolder> traces,
                       OpenTraces(config.trace, program.name, log, metrics));

  SCD_ASSIGN_OR_RETURN(const std::vector<NamedService> services,
                       daemon.Start({log, metrics, requests, traces.get()}));
  const auto serve = [&]() -> absl::Status {
    std::unique_ptr<MetricsServer> metrics_server;
    DaemonAddresses addresses;
    if (config.metrics_listen.has_value()) {
      SCD_ASSIGN_OR_RETURN(metrics_server, MetricsServer::Start(*config.metrics_listen, metrics));
      addresses.metrics = metrics_server->address();
    }
    SCD_ASSIGN_OR_RETURN(const std::unique_ptr<GrpcServer> server, GrpcServer::Start(config.grpc, services));
    addresses.grpc = server->address();
    log.Info(absl::StrCat(program.name, " ", kScdVersion, " listens on ", addresses.grpc.ToString(),
                          config.grpc.tls.certificate.empty() ? "" : " (TLS)", ", metrics on ",
                          metrics_server == nullptr ? "no port" : addresses.metrics.ToString(), ": ",
                          daemon.Summary()));
    if (on_serving) on_serving(addresses);
    WaitForStop(stop);

    log.Info(absl::StrCat("stopping: ", requests.num_in_flight(), " requests in flight get up to ",
                          config.shutdown_grace_seconds, " s to end"));
    server->SetServing(false);
    requests.StartDraining();
    if (!requests.WaitIdle(absl::Seconds(config.shutdown_grace_seconds))) {
      log.Warning(absl::StrCat("cancelling ", requests.num_in_flight(), " requests"));
      daemon.CancelRequests();
      requests.WaitIdle(kCancelTime);
    }
    server->Shutdown(absl::ZeroDuration());
    return absl::OkStatus();
  };
  const absl::Status status = serve();
  metrics.ClearGauges();
  daemon.Stop();
  return status;
}

}  // namespace

int RunDaemon(Daemon& daemon, int argc, const char* const* argv,
              const std::function<void(const DaemonAddresses&)>& on_serving) {
  ProgramInfo program = daemon.program();
  program.traces = true;
  const auto parsed = ParseCommandLine(program, argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  const CommandLine& line = std::get<CommandLine>(parsed);

  const auto fail = [&program](const absl::Status& status, int exit_code) {
    std::cerr << program.name << ": " << status.message() << std::endl;
    return exit_code;
  };
  const auto signals = SignalWatcher::Create();
  if (!signals.ok()) return fail(signals.status(), kExitFailure);
  DaemonConfig config = daemon.default_config();
  if (const absl::Status status = Configure(daemon, line, &config); !status.ok())
    return fail(status, kExitUsage);
  if (!config.trace.dir.empty()) {
    if (const absl::Status status = CheckTraceFolder(config.trace.dir); !status.ok())
      return fail(status, kExitFailure);
  }
  if (const absl::Status status = daemon.OpenFiles(); !status.ok()) return fail(status, kExitFailure);
  if (line.check) {
    std::cout << program.name << ": " << line.config_path << " is good" << std::endl;
    return kExitOk;
  }
  const std::unique_ptr<Log> log = MakeStderrLog(config.log_level);
  const absl::Status status = Serve(daemon, config, *log, (*signals)->token(), on_serving);
  if (!status.ok()) return fail(status, kExitFailure);
  log->Info(absl::StrCat(program.name, " ended"));
  return kExitOk;
}

}  // namespace scd
