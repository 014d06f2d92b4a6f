// Bundles of one pair fitted on more and fewer prefixes, by scd-calibrate as a child process.
#ifndef SCD_EVAL_CALIBRATION_RUNS_H_
#define SCD_EVAL_CALIBRATION_RUNS_H_

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/server/log.h"
#include "eval/config.h"

namespace scd {

// The folder that bundles are fitted in: the configured one, or a temporary one that goes with this.
class CalibrationFolder {
 public:
  static absl::StatusOr<CalibrationFolder> Create(const std::string& configured);
  CalibrationFolder(CalibrationFolder&& other) noexcept;
  CalibrationFolder& operator=(CalibrationFolder&&) = delete;
  ~CalibrationFolder();

  const std::string& path() const { return path_; }

 private:
  CalibrationFolder(std::string path, bool temporary) : path_(std::move(path)), temporary_(temporary) {}

  std::string path_;
  bool temporary_;
};

// `scd-calibrate --config ... --set corpus.max_prefixes=N`; returns the bundle's folder, at once where the
// folder has it from an earlier run. UNAVAILABLE with the last lines of its log where it fails.
absl::StatusOr<std::string> FitBundle(const EvalConfig& config, std::int64_t prefixes,
                                      const std::string& folder, Log& log, const std::stop_token& stop);

// The arguments of that program.
std::vector<std::string> CalibrateArguments(const AblateConfig& config, std::int64_t prefixes,
                                            const std::string& bundle, const std::string& work);

}  // namespace scd

#endif  // SCD_EVAL_CALIBRATION_RUNS_H_
