#include "eval/calibration_runs.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "eval/child_process.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr char kCalibrate[] = "scd-calibrate";
constexpr int kShownLines = 15;

}  // namespace

absl::StatusOr<CalibrationFolder> CalibrationFolder::Create(const std::string& configured) {
  std::error_code error;
  if (!configured.empty()) {
    std::filesystem::create_directories(configured, error);
    if (error) return absl::UnavailableError(absl::StrCat(configured, ": ", error.message()));
    return CalibrationFolder(configured, false);
  }
  std::string path = (std::filesystem::temp_directory_path(error) / "scd-eval-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) return absl::ErrnoToStatus(errno, path);
  return CalibrationFolder(std::move(path), true);
}

CalibrationFolder::CalibrationFolder(CalibrationFolder&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, false)) {}

CalibrationFolder::~CalibrationFolder() {
  std::error_code ignored;
  if (temporary_) std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> CalibrateArguments(const AblateConfig& config, std::int64_t prefixes,
                                            const std::string& bundle, const std::string& work) {
  std::vector<std::string> arguments = {"--config", config.calibrate_config};
  const auto set = [&arguments](std::string setting) {
    arguments.push_back("--set");
    arguments.push_back(std::move(setting));
  };
  for (const std::string& setting : config.calibrate_set) set(setting);
  set(absl::StrCat("corpus.max_prefixes=", prefixes));
  set(absl::StrCat("output=\"", bundle, "\""));
  set(absl::StrCat("work_dir=\"", work, "\""));
  return arguments;
}

absl::StatusOr<std::string> FitBundle(const EvalConfig& config, std::int64_t prefixes,
                                      const std::string& folder, Log& log, const std::stop_token& stop) {
  const std::string bundle = absl::StrCat(folder, "/bundle-", prefixes);
  std::error_code error;
  if (std::filesystem::exists(bundle + "/manifest.json", error)) {
    log.Info(absl::StrCat(bundle, " is there from an earlier run"));
    return bundle;
  }
  log.Info(absl::StrCat("fitting a bundle on ", prefixes, " prefixes"));
  const std::string& programs = config.daemons.programs;
  SCD_ASSIGN_OR_RETURN(const auto process,
                       ChildProcess::Start(absl::StrCat(programs, "/", kCalibrate),
                                           CalibrateArguments(config.ablate, prefixes, bundle,
                                                              absl::StrCat(folder, "/work-", prefixes))));
  SCD_ASSIGN_OR_RETURN(const int exit_code, process->Wait(absl::InfiniteDuration(), stop));
  if (exit_code == 0) return bundle;
  return absl::UnavailableError(absl::StrCat(kCalibrate, " ", DescribeExit(exit_code), " on ", prefixes,
                                             " prefixes. Its last lines:\n",
                                             process->LastLines(kShownLines)));
}

}  // namespace scd
