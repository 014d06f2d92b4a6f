// Fits the Reuse translators of every layer from the accumulated moments and measures them on held-out rows.
#ifndef SCD_CALIBRATE_REUSE_STAGE_H_
#define SCD_CALIBRATE_REUSE_STAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "calibrate/parallel.h"
#include "calibrate/run_context.h"
#include "calibrate/trace_stage.h"
#include "calibrate/translator.h"

namespace scd {

// Which closed form.
enum class ReuseFit : std::uint8_t {
  kJoint,        // K (V) of both models share a latent: the paper's
  kReducedRank,  // reduced-rank regression of the consumer's on the producer's: the least error at a rank
};

struct ReuseOptions {
  ReuseFit fit = ReuseFit::kJoint;
  double ridge_lambda = 1e-4;
  std::int64_t max_rank_k = 0, max_rank_v = 0;  // fitted
  std::int64_t rank_k = 0, rank_v = 0;          // errors are measured at these
};

struct LayerReuse {
  AffineTranslator k;
  AffineTranslator v;
  double error_k = 0;  // |X_hat - X| / |X - mean| of held-out rows
  double error_v = 0;
};

absl::StatusOr<std::vector<LayerReuse>> RunReuseStage(const RunContext& context, const Traces& traces,
                                                      const ReuseOptions& options, WorkerPool& workers);

}  // namespace scd

#endif  // SCD_CALIBRATE_REUSE_STAGE_H_
