#include "eval/computed_latency.h"

namespace scd {

LatencyFigures ComputedLatency(const LatencyFigures& loopback, double link_mbit_s) {
  LatencyFigures computed = loopback;
  const double wire_ms = loopback.bytes * 8 / (link_mbit_s * 1e6) * 1e3;
  computed.measured = false;
  computed.link_mbit_s = link_mbit_s;
  computed.wire_ms = wire_ms;
  if (computed.ttft_ms_cold) *computed.ttft_ms_cold += wire_ms;
  if (computed.ttft_ms_codes_ready) *computed.ttft_ms_codes_ready += wire_ms;
  return computed;
}

}  // namespace scd
