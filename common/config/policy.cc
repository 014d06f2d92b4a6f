#include "common/config/policy.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace scd {

std::string_view TransferPolicyName(TransferPolicy policy) {
  switch (policy) {
    case TransferPolicy::kRequire:
      return "require";
    case TransferPolicy::kPrefer:
      return "prefer";
    case TransferPolicy::kOff:
      return "off";
  }
  return "unknown";
}

absl::StatusOr<TransferPolicy> ParseTransferPolicy(std::string_view name) {
  for (const TransferPolicy policy :
       {TransferPolicy::kRequire, TransferPolicy::kPrefer, TransferPolicy::kOff}) {
    if (name == TransferPolicyName(policy)) return policy;
  }
  return absl::InvalidArgumentError(absl::StrCat("expected \"require\", \"prefer\" or \"off\", got \"",
                                                 absl::CHexEscape(std::string(name)), "\""));
}

}  // namespace scd
