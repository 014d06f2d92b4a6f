// Codes of training rows that stand for all of them: what the tables of the entropy codec are fitted on.
#ifndef SCD_CALIBRATE_CODE_SAMPLES_H_
#define SCD_CALIBRATE_CODE_SAMPLES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "calibrate/entropy_fit.h"
#include "calibrate/fitted_pair.h"
#include "calibrate/mapped_rows.h"
#include "calibrate/parallel.h"
#include "calibrate/run_context.h"
#include "calibrate/trace_store.h"
#include "common/config/layer_plan.h"
#include "common/model/transformer.h"

namespace scd {

// Rows that are taken, in whole pieces spread evenly over the training prefixes; fewer where there are fewer.
inline constexpr std::int64_t kSampleRows = 8192;

// One code of one layer, at the largest rank.
struct CodeSample {
  std::int64_t layer = 0;
  CodeKind kind = CodeKind::kK;
  std::vector<double> variances;  // of its columns
  std::vector<double> weights;  // ColumnWeights of its decoder, in units of the spread of what it decodes to
  std::unique_ptr<MappedRows> rows;  // [n, rank]
};

// Of every code that the fitted translators make. The store has attention inputs of every layer. CANCELLED
// when the run is stopped.
absl::StatusOr<std::vector<CodeSample>> SampleCodes(const RunContext& context, const TraceStore& store,
                                                    const Transformer& producer, const Transformer& consumer,
                                                    const FittedPair& fitted, WorkerPool& workers);

// The tables of every sample at one distortion.
absl::StatusOr<std::vector<CodeTables>> FitCodeTables(const std::vector<CodeSample>& samples,
                                                      double distortion, WorkerPool& workers);

}  // namespace scd

#endif  // SCD_CALIBRATE_CODE_SAMPLES_H_
