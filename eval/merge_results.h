// Several results documents as one, for a report.
#ifndef SCD_EVAL_MERGE_RESULTS_H_
#define SCD_EVAL_MERGE_RESULTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace scd {

// Sections are put together; of what stands in several documents (a row of the table, a row of the latency,
// an ablation, the drift) the last one counts. INVALID_ARGUMENT naming the document that is none of this
// schema, or that was measured on another pair or bundle than the first: figures of two pairs are no table.
absl::StatusOr<nlohmann::ordered_json> MergeResults(const std::vector<nlohmann::ordered_json>& documents,
                                                    const std::vector<std::string>& names);

// NOT_FOUND, INVALID_ARGUMENT.
absl::StatusOr<nlohmann::ordered_json> ReadResults(const std::string& path);

}  // namespace scd

#endif  // SCD_EVAL_MERGE_RESULTS_H_
