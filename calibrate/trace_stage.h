// The first stage: both models prefill every prefix; moments of K and V are accumulated, hidden rows and
// held-out rows go to the scratch file. The state is kept on disk every few prefixes, so that a run that was
// killed goes on there.
#ifndef SCD_CALIBRATE_TRACE_STAGE_H_
#define SCD_CALIBRATE_TRACE_STAGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibrate/pair_moments.h"
#include "calibrate/pair_runner.h"
#include "calibrate/parallel.h"
#include "calibrate/run_context.h"
#include "calibrate/trace_store.h"
#include "common/io/digest.h"

namespace scd {

struct TraceStageOptions {
  std::int64_t native_head = 1;      // first positions, left out of everything
  std::int64_t hold_out_every = 10;  // of so many prefixes the last one takes part in no fit
  std::int64_t pass_tokens = 512;
  std::int64_t checkpoint_prefixes = 10;
  std::string computed_by = {};  // Backend::Describe(): rows of one run are all computed alike
};

struct Traces {
  std::vector<PairMoments> k;  // one for each layer, with bb
  std::vector<PairMoments> v;
  std::unique_ptr<TraceStore> store;
  std::int64_t num_forward_passes = 0;  // of this run
};

// Whether a prefix takes part in no fit: every `hold_out_every`-th, and the last one where there are fewer.
bool IsHeldOut(std::int64_t prefix, std::int64_t num_prefixes, std::int64_t hold_out_every);

// `inputs`: digest of both models and the corpus; the options and the shape are added here. CANCELLED when
// the run is stopped, with the state kept; FAILED_PRECONDITION where an earlier run of the same inputs
// computed by something else, of which nothing is overwritten.
absl::StatusOr<Traces> RunTraceStage(const RunContext& context, const Transformer& producer,
                                     const Transformer& consumer, const TraceShape& shape,
                                     const Prefixes& prefixes, const TraceStageOptions& options,
                                     const Digest& inputs, WorkerPool& workers);

}  // namespace scd

#endif  // SCD_CALIBRATE_TRACE_STAGE_H_
