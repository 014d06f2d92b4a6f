// What the consumer does when the producer cannot serve, and why it did not use codes.
#ifndef SCD_COMMON_CONFIG_POLICY_H_
#define SCD_COMMON_CONFIG_POLICY_H_

#include <cstdint>
#include <string_view>

namespace scd {

enum class TransferPolicy : std::uint8_t {
  kRequire,  // a failed transfer fails the request
  kPrefer,   // a failed transfer falls back to native prefill, and the answer says so
  kOff,      // always native
};

}  // namespace scd

#endif  // SCD_COMMON_CONFIG_POLICY_H_
