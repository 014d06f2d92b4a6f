// The rate points of a bundle: for each distortion the entropy codec's tables of every code, and what the
// codes then make of held-out prefixes. With a target, one more point that meets it.
#ifndef SCD_CALIBRATE_RATE_STAGE_H_
#define SCD_CALIBRATE_RATE_STAGE_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibrate/code_samples.h"
#include "calibrate/config.h"
#include "calibrate/fitted_pair.h"
#include "calibrate/held_out_evaluator.h"
#include "calibrate/parallel.h"
#include "calibrate/run_context.h"
#include "common/bundle/bundle.h"

namespace scd {

// Makes a bundle of what was fitted, as a daemon would open it.
using DraftBundle = std::function<absl::StatusOr<std::unique_ptr<Bundle>>(const FittedPair& fitted)>;

// Fills fitted->rates and default_rate. `samples`: of every code of `fitted`. FAILED_PRECONDITION where the
// target cannot be met, saying how close it came.
absl::Status RunRateStage(const RunContext& context, const EntropyConfig& config,
                          const std::vector<CodeSample>& samples, HeldOutEvaluator& evaluator,
                          const DraftBundle& draft, WorkerPool& workers, FittedPair* fitted);

}  // namespace scd

#endif  // SCD_CALIBRATE_RATE_STAGE_H_
