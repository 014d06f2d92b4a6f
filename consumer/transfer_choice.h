// How one request wants its prompt's state to come: the server's settings with the request's own over them.
#ifndef SCD_CONSUMER_TRANSFER_CHOICE_H_
#define SCD_CONSUMER_TRANSFER_CHOICE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/bundle/bundle.h"
#include "common/config/layer_plan.h"
#include "common/config/policy.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

struct TransferChoice {
  std::string mode;  // never auto
  TransferPolicy policy = TransferPolicy::kPrefer;
  LayerPlan plan;  // empty for mode local
  absl::Duration timeout;
  bool no_code_store = false;
  bool no_prefix_cache = false;
};

struct TransferDefaults {
  std::string mode;  // may be auto
  TransferPolicy policy = TransferPolicy::kPrefer;
  PlanRequest plan_request;
  absl::Duration timeout;
  const Bundle* bundle = nullptr;  // null: only mode local
};

// INVALID_ARGUMENT naming the field (transfer.mode, transfer.plan.rank_k, ...); FAILED_PRECONDITION for a
// mode that needs a bundle where none is loaded.
absl::StatusOr<TransferChoice> ChooseTransfer(const TransferDefaults& defaults, const v1::Transfer& request);

}  // namespace scd

#endif  // SCD_CONSUMER_TRANSFER_CHOICE_H_
