// The payload of a transfer: codes of one layer and kind for consecutive tokens.
#ifndef SCD_COMMON_WIRE_LAYER_CODE_H_
#define SCD_COMMON_WIRE_LAYER_CODE_H_

#include <cstdint>
#include <string>

#include "common/config/codec.h"
#include "common/config/layer_plan.h"

namespace scd {

struct LayerCode {
  std::int64_t layer = 0;
  CodeKind kind = CodeKind::kK;
  std::int64_t first_token = 0;  // position in the prompt
  std::int64_t num_tokens = 0;
  std::int64_t rank = 0;
  Codec codec = Codec::kBF16;
  std::string payload;  // [num_tokens, rank] as the codec writes it (payload_format.h)
};

}  // namespace scd

#endif  // SCD_COMMON_WIRE_LAYER_CODE_H_
