// The whole calibration of a pair: corpus, traces, fits, choice of Patch layers, bundle.
#ifndef SCD_CALIBRATE_CALIBRATION_H_
#define SCD_CALIBRATE_CALIBRATION_H_

#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibrate/config.h"
#include "common/io/digest.h"
#include "common/server/log.h"
#include "common/server/progress.h"

namespace scd {

// Opens and checks everything that the configuration names: models, corpus files, that the output and the
// work folder can be written. Changes nothing.
absl::Status CheckCalibration(CalibrateConfig config);

// Runs it and writes the bundle; returns its digest. CANCELLED when `stop` is set: what was accumulated is
// kept in the work folder and the next run goes on from it.
absl::StatusOr<Digest> RunCalibration(CalibrateConfig config, Log& log, const ProgressStyle& progress,
                                      std::stop_token stop);

}  // namespace scd

#endif  // SCD_CALIBRATE_CALIBRATION_H_
