// scd-health: asks a daemon whether it serves, for health checks of containers. What `scd-client health`
// does, without the rest of the client.
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/number_checks.h"
#include "client/rpc.h"
#include "common/server/command_line.h"

namespace {

constexpr char kName[] = "scd-health";
constexpr char kFooter[] =
    "Exit codes: 0 it serves, 1 it does not or nothing answers in time, 2 wrong usage.\n"
    "Why it does not goes to standard error; a daemon that serves gives no output.";

int Unhealthy(const std::string& why) {
  std::cerr << kName << ": " << why << std::endl;
  return scd::kExitFailure;
}

}  // namespace

int main(int argc, char** argv) {
  std::string address, service;
  double timeout_ms = 2000;
  CLI::App app("Health probe of SCD's daemons: asks one whether it serves (grpc.health.v1).", kName);
  app.footer(kFooter);
  app.set_version_flag("--version", std::string(kName) + " " + scd::kScdVersion,
                       "Print the version and exit");
  app.add_option("address", address, "Address of the daemon, host:port")->required()->type_name("ADDRESS");
  app.add_option("--service", service, "The gRPC service asked about; empty: the whole server");
  app.add_option("--timeout-ms", timeout_ms,
                 "Time allowed for the connection, and again for the answer, in ms")
      ->check(scd::FiniteNumber(1.0, 3600e3))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? scd::kExitOk : scd::kExitUsage;
  }
  const absl::Duration timeout = absl::Milliseconds(timeout_ms);
  const auto connection = scd::Connection::Open(address, timeout, {});
  if (!connection.ok()) return Unhealthy(std::string(connection.status().message()));
  const absl::Status status = (*connection)->CheckHealth(service, timeout);
  return status.ok() ? scd::kExitOk : Unhealthy(absl::StrCat(address, ": ", status.message()));
}
