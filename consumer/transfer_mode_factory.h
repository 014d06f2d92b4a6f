// Makes the transfer modes that this build knows, by name. A new way of moving state is a TransferMode, a
// name in transfer_mode_names.h and a line here.
#ifndef SCD_CONSUMER_TRANSFER_MODE_FACTORY_H_
#define SCD_CONSUMER_TRANSFER_MODE_FACTORY_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/bundle/bundle.h"
#include "common/config/layer_plan.h"
#include "common/model/transformer.h"
#include "consumer/config.h"
#include "consumer/transfer_mode.h"

namespace scd {

// INVALID_ARGUMENT for a name that is no mode or that transfers nothing ("local").
absl::StatusOr<std::unique_ptr<TransferMode>> CreateTransferMode(std::string_view name,
                                                                 const ConsumerConfig& config,
                                                                 const Bundle& bundle,
                                                                 const LayerPlan& default_plan,
                                                                 const Transformer& transformer);

}  // namespace scd

#endif  // SCD_CONSUMER_TRANSFER_MODE_FACTORY_H_
