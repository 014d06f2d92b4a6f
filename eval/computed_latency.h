// What a time to first token measured on loopback would be on a slower link.
#ifndef SCD_EVAL_COMPUTED_LATENCY_H_
#define SCD_EVAL_COMPUTED_LATENCY_H_

#include "eval/results.h"

namespace scd {

// T = bytes / bandwidth + what was measured on loopback, where the wire costs next to nothing. Stages that
// overlap in truth add up here: the real time is lower. Marked as not measured.
LatencyFigures ComputedLatency(const LatencyFigures& loopback, double link_mbit_s);

}  // namespace scd

#endif  // SCD_EVAL_COMPUTED_LATENCY_H_
