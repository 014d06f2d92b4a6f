// A trace as Chrome's trace-event JSON, which ui.perfetto.dev and chrome://tracing open.
#ifndef SCD_COMMON_TRACE_TRACE_JSON_H_
#define SCD_COMMON_TRACE_TRACE_JSON_H_

#include <cstdint>
#include <string>

#include "common/trace/request_trace.h"

namespace scd {

// Where a trace was made.
struct TraceOrigin {
  std::string program;  // "scd-producer"
  std::string side;     // "producer"
  std::int64_t process_id = 1;
};

// {"displayTimeUnit", "otherData": {request_id, program, side, outcome, dropped_events}, "traceEvents"}.
// Times are microseconds since 1970. Ids that are not UTF-8 are mended. Empties the trace.
std::string TraceToJson(RequestTrace& trace, const TraceOrigin& origin);

}  // namespace scd

#endif  // SCD_COMMON_TRACE_TRACE_JSON_H_
