// What a trace says of a code of a layer.
#ifndef SCD_COMMON_TRACE_CODE_DETAIL_H_
#define SCD_COMMON_TRACE_CODE_DETAIL_H_

#include <cstdint>

#include "common/config/layer_plan.h"
#include "common/trace/request_trace.h"

namespace scd {

// Code: LayerCode (common/wire/layer_code.h), which this folder need not know.
template <typename Code>
TraceDetail DetailOf(const Code& code) {
  return {.layer = code.layer,
          .first_token = code.first_token,
          .tokens = code.num_tokens,
          .bytes = static_cast<std::int64_t>(code.payload.size()),
          .kind = CodeKindName(code.kind)};
}

}  // namespace scd

#endif  // SCD_COMMON_TRACE_CODE_DETAIL_H_
