// The `drift` measurement of a model pair and its bundle: opens the models in this process, measures every
// prefix and makes the "drift" section of the results document.
#ifndef SCD_EVAL_DRIFT_DRIFT_COMMAND_H_
#define SCD_EVAL_DRIFT_DRIFT_COMMAND_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/layer_plan.h"
#include "common/model/model_source.h"
#include "kernels/backend_factory.h"
#include "nlohmann/json.hpp"

namespace scd {

struct DriftPrefix {
  std::vector<std::int32_t> prompt;  // what is handed over, its last token included
  std::vector<std::int32_t>
      continuation;  // teacher-forced; at least decode_positions - 1 tokens, more are left out
};

struct DriftMode {
  std::string name;  // "reuse", "scd"
  PlanRequest plan;  // of codes; the native ranges of all modes are the same
};

struct DriftOptions {
  ModelSource producer;
  ModelSource consumer;
  std::string bundle;
  BackendOptions backend;
  std::vector<DriftPrefix> prefixes;  // at least 2: the first half is for the estimates, the rest is measured
  std::int64_t decode_positions = 33;  // of each prefix, its last token included
  std::vector<DriftMode> modes = {{"reuse", {.patch_layers = std::vector<std::int64_t>{}}}, {"scd", {}}};
};

// on_prefix(n) after each prefix: n are done. INVALID_ARGUMENT names the prefix and what is wrong with it;
// FAILED_PRECONDITION where the bundle was fitted for other models; CANCELLED when stopped.
absl::StatusOr<nlohmann::json> RunDrift(const DriftOptions& options,
                                        const std::function<void(std::int64_t)>& on_prefix,
                                        std::stop_token stop);

}  // namespace scd

#endif  // SCD_EVAL_DRIFT_DRIFT_COMMAND_H_
