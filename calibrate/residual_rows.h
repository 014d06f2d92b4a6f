// The residual stream of one prefix as it enters some of a model's layers, which selective recomputation
// begins from.
//
// Kept in host memory, layers x tokens x hidden x 4 bytes: only the few held-out prefixes that a selective
// profile is measured on are run for it.
#ifndef SCD_CALIBRATE_RESIDUAL_ROWS_H_
#define SCD_CALIBRATE_RESIDUAL_ROWS_H_

#include <cstdint>
#include <map>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/transformer.h"

namespace scd {

// By layer: [tokens, hidden] f32, row-major.
using ResidualRows = std::map<std::int64_t, std::vector<float>>;

// Runs `model` over the tokens, in passes of at most max_pass_rows. CANCELLED when `cancel` is set.
absl::StatusOr<ResidualRows> CollectResiduals(const Transformer& model, absl::Span<const std::int32_t> tokens,
                                              absl::Span<const std::int64_t> layers,
                                              std::int64_t max_pass_rows, std::stop_token cancel);

}  // namespace scd

#endif  // SCD_CALIBRATE_RESIDUAL_ROWS_H_
