// What the consumer does when the producer cannot serve, and why it did not use codes.
#ifndef SCD_COMMON_CONFIG_POLICY_H_
#define SCD_COMMON_CONFIG_POLICY_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace scd {

enum class TransferPolicy : std::uint8_t {
  kRequire,  // a failed transfer fails the request
  kPrefer,   // a failed transfer falls back to native prefill, and the answer says so
  kOff,      // always native
};

// "require", "prefer", "off".
std::string_view TransferPolicyName(TransferPolicy policy);

// INVALID_ARGUMENT with the three names for anything else.
absl::StatusOr<TransferPolicy> ParseTransferPolicy(std::string_view name);

}  // namespace scd

#endif  // SCD_COMMON_CONFIG_POLICY_H_
