// What the engine refuses before it starts, and before it takes a request in.
#ifndef SCD_CONSUMER_ENGINE_CHECKS_H_
#define SCD_CONSUMER_ENGINE_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/model/transformer.h"
#include "consumer/engine.h"

namespace scd {

// INVALID_ARGUMENT naming the option and its range.
absl::Status CheckEngineOptions(const EngineOptions& options);

// INVALID_ARGUMENT naming the field.
absl::Status CheckEngineRequest(const EngineRequest& request, const Transformer& transformer,
                                const EngineOptions& options);

}  // namespace scd

#endif  // SCD_CONSUMER_ENGINE_CHECKS_H_
