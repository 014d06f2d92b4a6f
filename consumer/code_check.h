// A last look at the numbers of a code before they are multiplied into KV pages.
#ifndef SCD_CONSUMER_CODE_CHECK_H_
#define SCD_CONSUMER_CODE_CHECK_H_

#include "absl/status/status.h"
#include "common/wire/layer_code.h"

namespace scd {

// Codes of real text stay many orders of magnitude below this; rows beyond it could overflow the norms of
// later layers.
inline constexpr float kMaxCodeMagnitude = 1e9f;

// DATA_LOSS naming layer, kind, token and column of the first number that is NaN, infinite or over
// kMaxCodeMagnitude.
absl::Status CheckCodeNumbers(const LayerCode& code);

}  // namespace scd

#endif  // SCD_CONSUMER_CODE_CHECK_H_
