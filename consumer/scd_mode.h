// Mode "scd": semantic codes from a producer, rebuilt into the consumer's own KV as they arrive.
#ifndef SCD_CONSUMER_SCD_MODE_H_
#define SCD_CONSUMER_SCD_MODE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/bundle/bundle.h"
#include "common/config/layer_plan.h"
#include "common/model/transformer.h"
#include "consumer/code_client.h"
#include "consumer/transfer_mode.h"

namespace scd {

struct ScdModeOptions {
  std::int64_t max_cached_plans = 4;
  LayerPlan default_plan;  // made ready before the first transfer
};

// `bundle` and `transformer` outlive the mode, and so does every sequence that it is given.
absl::StatusOr<std::unique_ptr<TransferMode>> CreateScdMode(const Bundle& bundle,
                                                            const Transformer& transformer,
                                                            std::unique_ptr<CodeClient> client,
                                                            const ScdModeOptions& options);

}  // namespace scd

#endif  // SCD_CONSUMER_SCD_MODE_H_
