#include "consumer/transfer_mode_factory.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "consumer/code_client.h"
#include "consumer/scd_mode.h"
#include "consumer/transfer_mode_names.h"
#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::unique_ptr<TransferMode>> CreateTransferMode(std::string_view name,
                                                                 const ConsumerConfig& config,
                                                                 const Bundle& bundle,
                                                                 const LayerPlan& default_plan,
                                                                 const Transformer& transformer) {
  if (name == kScdMode) {
    const CodeClientOptions options{.address = config.producer.address.ToString(),
                                    .connect_timeout = absl::Milliseconds(config.producer.connect_timeout_ms),
                                    .queue_frames = config.producer.queue_frames};
    SCD_ASSIGN_OR_RETURN(std::unique_ptr<CodeClient> client,
                         CodeClient::Create(options, bundle.manifest(), bundle.digest()));
    return CreateScdMode(bundle, transformer, std::move(client),
                         {.max_cached_plans = config.max_cached_plans, .default_plan = default_plan});
  }
  return absl::InvalidArgumentError(absl::StrCat("mode '", std::string(name), "' transfers nothing"));
}

}  // namespace scd
