#include "eval/report_writer.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "eval/child_process.h"
#include "eval/results.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr absl::Duration kRenderTimeout = absl::Minutes(10);
constexpr int kShownLines = 15;

}  // namespace

absl::Status WriteResults(const nlohmann::ordered_json& document, const std::string& path) {
  const std::string partial = absl::StrCat(path, ".partial-", getpid());
  {
    std::ofstream out(partial, std::ios::binary | std::ios::trunc);
    out << ResultsText(document) << std::flush;
    if (!out) return absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
  }
  std::error_code error;
  std::filesystem::rename(partial, path, error);
  if (error) return absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", error.message()));
  return absl::OkStatus();
}

absl::Status WriteReport(const nlohmann::ordered_json& document, const ReportConfig& config,
                         const std::string& folder, const std::stop_token& stop) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat(folder, ": cannot be made: ", error.message()));
  const std::string results = folder + "/results.json";
  SCD_RETURN_IF_ERROR(WriteResults(document, results));
  SCD_ASSIGN_OR_RETURN(const auto renderer,
                       ChildProcess::Start(config.python, {config.renderer, results, folder}));
  SCD_ASSIGN_OR_RETURN(const int exit_code, renderer->Wait(kRenderTimeout, stop));
  if (exit_code == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(config.renderer, " ", DescribeExit(exit_code),
                                             "; the figures are in ", results, ". Its last lines:\n",
                                             renderer->LastLines(kShownLines)));
}

}  // namespace scd
