#include "eval/report_writer.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "eval/child_process.h"
#include "eval/results.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr absl::Duration kRenderTimeout = absl::Minutes(10);
constexpr int kShownLines = 15;

namespace fs = std::filesystem;

absl::Status CannotBe(const std::string& path, absl::string_view what, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("'", path, "': cannot be ", what, ": ", why));
}

fs::file_status StatusOf(const std::string& path) {
  std::error_code error;
  return fs::status(path, error);
}

// What is written where `path` is named: a link stays a link.
std::string TargetOf(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(path, error);
  return error || target.empty() ? path : target.string();
}

absl::Status CheckAccess(const std::string& path, const std::string& place, int access_mode) {
  if (access(place.c_str(), access_mode) == 0) return absl::OkStatus();
  return CannotBe(path, "written", std::generic_category().message(errno));
}

absl::Status WriteText(const std::string& text, const std::string& file, const std::string& path) {
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text << std::flush;
  if (out) return absl::OkStatus();
  return CannotBe(path, "written", std::generic_category().message(errno == 0 ? EIO : errno));
}

}  // namespace

absl::Status CheckResultsPath(const std::string& path) {
  const fs::file_status status = StatusOf(path);
  if (fs::is_directory(status)) return CannotBe(path, "written", "it is a folder");
  if (fs::exists(status) && !fs::is_regular_file(status)) return CheckAccess(path, path, W_OK);
  if (path.empty()) return CannotBe(path, "written", "it is no file's name");
  const std::string folder = fs::path(TargetOf(path)).parent_path().string();
  return CheckAccess(path, absl::StrCat(folder.empty() ? "." : folder, "/"), W_OK | X_OK);
}

absl::Status CheckReportFolder(const std::string& folder) {
  if (folder.empty()) return CannotBe(folder, "made", "it is no folder's name");
  fs::path nearest = folder;
  while (!nearest.empty() && !fs::exists(StatusOf(nearest.string()))) nearest = nearest.parent_path();
  if (nearest.empty()) nearest = ".";
  if (!fs::is_directory(StatusOf(nearest.string()))) {
    return CannotBe(folder, "made", absl::StrCat(nearest.string(), " is no folder"));
  }
  return CheckAccess(folder, nearest.string(), W_OK | X_OK);
}

absl::Status WriteResults(const nlohmann::ordered_json& document, const std::string& path) {
  SCD_RETURN_IF_ERROR(CheckResultsPath(path));
  const fs::file_status status = StatusOf(path);
  if (fs::exists(status) && !fs::is_regular_file(status)) return WriteText(ResultsText(document), path, path);
  const std::string target = TargetOf(path);
  const std::string partial = absl::StrCat(target, ".partial-", getpid());
  absl::Status written = WriteText(ResultsText(document), partial, path);
  std::error_code error;
  if (written.ok()) {
    fs::rename(partial, target, error);
    if (error) written = CannotBe(path, "written", error.message());
  }
  if (!written.ok()) fs::remove(partial, error);
  return written;
}

absl::Status WriteReport(const nlohmann::ordered_json& document, const ReportConfig& config,
                         const std::string& folder, const std::stop_token& stop) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return CannotBe(folder, "made", error.message());
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
