// What every stage of a calibration is lent.
#ifndef SCD_CALIBRATE_RUN_CONTEXT_H_
#define SCD_CALIBRATE_RUN_CONTEXT_H_

#include <stop_token>

#include "calibrate/host_math.h"
#include "calibrate/work_folder.h"
#include "common/server/log.h"
#include "common/server/progress.h"

namespace scd {

struct RunContext {
  Log& log;
  WorkFolder& work;
  std::stop_token stop;  // set when the operator wants the run to end; what is done is kept
  ProgressStyle progress;
  MathDevice device = {};  // that products of the fits run on
};

}  // namespace scd

#endif  // SCD_CALIBRATE_RUN_CONTEXT_H_
