// What a trace says of a code.
#ifndef SCD_CONSUMER_TRACE_DETAIL_H_
#define SCD_CONSUMER_TRACE_DETAIL_H_

#include <cstdint>

#include "common/trace/request_trace.h"
#include "common/wire/layer_code.h"

namespace scd {

inline TraceDetail DetailOf(const LayerCode& code) {
  return {.layer = code.layer,
          .first_token = code.first_token,
          .tokens = code.num_tokens,
          .bytes = static_cast<std::int64_t>(code.payload.size()),
          .kind = CodeKindName(code.kind)};
}

}  // namespace scd

#endif  // SCD_CONSUMER_TRACE_DETAIL_H_
