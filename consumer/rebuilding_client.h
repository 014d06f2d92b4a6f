// Transfers from a producer: what it sends for each layer is rebuilt into the consumer's own KV as it
// arrives, by the plan of each job.
#ifndef SCD_CONSUMER_REBUILDING_CLIENT_H_
#define SCD_CONSUMER_REBUILDING_CLIENT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/bundle/bundle.h"
#include "common/config/layer_plan.h"
#include "common/model/transformer.h"
#include "consumer/code_client.h"
#include "consumer/transfer_client.h"

namespace scd {

struct RebuildingOptions {
  std::int64_t max_cached_plans = 4;
  LayerPlan default_plan;  // made ready before the first transfer
};

// `bundle` and `transformer` outlive the client, and so does every sequence that it is given.
absl::StatusOr<std::unique_ptr<TransferClient>> CreateRebuildingClient(const Bundle& bundle,
                                                                       const Transformer& transformer,
                                                                       std::unique_ptr<CodeClient> client,
                                                                       const RebuildingOptions& options);

}  // namespace scd

#endif  // SCD_CONSUMER_REBUILDING_CLIENT_H_
