// Where results go: a JSON file, and a report that the renderer draws.
#ifndef SCD_EVAL_REPORT_WRITER_H_
#define SCD_EVAL_REPORT_WRITER_H_

#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "eval/config.h"
#include "nlohmann/json.hpp"

namespace scd {

// Whether the two below can be expected to work, so that hours of measuring are not lost to a mistyped path.
// Nothing is made. UNAVAILABLE naming the path.
absl::Status CheckResultsPath(const std::string& path);
absl::Status CheckReportFolder(const std::string& folder);

// In one step: a reader sees the old file or the new one, and an error leaves the old one alone. Links are
// followed; what is no regular file (a pipe, /dev/stdout) is written to as it is. UNAVAILABLE naming the
// path.
absl::Status WriteResults(const nlohmann::ordered_json& document, const std::string& path);

// results.json, then `python renderer results.json folder` as a child process, which writes report.html and
// report.md. The error has the renderer's last lines.
absl::Status WriteReport(const nlohmann::ordered_json& document, const ReportConfig& config,
                         const std::string& folder, const std::stop_token& stop);

}  // namespace scd

#endif  // SCD_EVAL_REPORT_WRITER_H_
