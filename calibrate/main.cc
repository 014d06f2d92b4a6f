// scd-calibrate: fits the bundle of translators of one model pair.
#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>
#include <variant>

#include "calibrate/calibration.h"
#include "calibrate/config.h"
#include "common/config/yaml_document.h"
#include "common/config/yaml_reader.h"
#include "common/server/command_line.h"
#include "common/server/daemon_config.h"
#include "common/server/log.h"
#include "common/server/signals.h"
#include "kernels/status_macros.h"

namespace {

constexpr char kName[] = "scd-calibrate";
scd::ProgramInfo Program() {
  return {.name = kName,
          .description = "Fits the bundle of translators of one model pair.",
          .fields = {{.name = "--target-kl",
                      .field = "entropy.target_kl",
                      .value_name = "NATS",
                      .description = "Serve the fewest bytes that leave no more than this divergence"},
                     {.name = "--target-bytes",
                      .field = "entropy.target_bytes",
                      .value_name = "BYTES",
                      .description = "Serve the least distortion at no more than so many bytes a token"}}};
}

constexpr int kExitInterrupted = 3;  // asked to stop; the next run goes on

absl::StatusOr<scd::CalibrateConfig> LoadConfig(const scd::CommandLine& line, scd::LogLevel* level) {
  SCD_ASSIGN_OR_RETURN(const scd::YamlDocument document,
                       scd::YamlDocument::Load(line.config_path, line.overrides));
  scd::YamlReader reader(document);
  scd::CalibrateConfig config;
  scd::ReadCalibrateConfig(reader.root(), &config);
  scd::ReadLogLevel(reader.root(), level);
  SCD_RETURN_IF_ERROR(reader.Finish());
  return config;
}

int Fail(const absl::Status& status, int exit_code) {
  std::cerr << kName << ": " << status.message() << std::endl;
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  const auto parsed = scd::ParseCommandLine(Program(), argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  const auto& line = std::get<scd::CommandLine>(parsed);

  const auto signals = scd::SignalWatcher::Create();
  if (!signals.ok()) return Fail(signals.status(), scd::kExitFailure);
  scd::LogLevel level = scd::LogLevel::kInfo;
  const auto config = LoadConfig(line, &level);
  if (!config.ok()) return Fail(config.status(), scd::kExitUsage);
  if (line.check) {
    if (const absl::Status status = scd::CheckCalibration(*config); !status.ok()) {
      return Fail(status, scd::kExitFailure);
    }
    std::cout << kName << ": " << line.config_path << " is good" << std::endl;
    return scd::kExitOk;
  }
  const std::unique_ptr<scd::Log> log = scd::MakeStderrLog(level);
  const scd::ProgressStyle progress{.terminal = isatty(STDERR_FILENO) == 1};
  const auto digest = scd::RunCalibration(*config, *log, progress, (*signals)->token());
  if (absl::IsCancelled(digest.status())) {
    return Fail(absl::CancelledError("stopped; what was accumulated is in " + config->work_dir +
                                     " and the same command goes on from there"),
                kExitInterrupted);
  }
  if (!digest.ok()) return Fail(digest.status(), scd::kExitFailure);
  return scd::kExitOk;
}
