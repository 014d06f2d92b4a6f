// The figures of one level of load.
#ifndef SCD_CLIENT_BENCH_LEVEL_RESULT_H_
#define SCD_CLIENT_BENCH_LEVEL_RESULT_H_

#include <cstdint>
#include <map>
#include <string>

#include "client/bench/distribution.h"
#include "client/bench/request_record.h"

namespace scd {

// Requests that failed are counted, by code, and in nothing else.
struct LevelResult {
  std::uint32_t concurrency = 0;  // closed loop, else 0
  double rate_per_s = 0.0;        // open loop, else 0
  std::int64_t most_in_flight = 0;
  bool interrupted = false;

  std::int64_t num_ok = 0;
  struct Failures {
    std::int64_t count = 0;
    std::string first_message;
  };
  std::map<std::string, Failures> errors;       // "unavailable" -> ...
  std::map<std::string, std::int64_t> modes;    // mode that served -> requests
  std::map<std::string, std::int64_t> reasons;  // why it was not the one asked for -> requests
  double seconds = 0.0;                         // from the begin of the level to the last end

  Distribution ttft_ms;         // intended start to first token
  Distribution tpot_ms;         // first to last token, over the tokens after the first; one for each request
  Distribution inter_token_ms;  // between a token and the next; one for each pair
  Distribution end_to_end_ms;   // intended start to the end of the stream
  Distribution start_delay_ms;  // intended start to start: what the generator itself was late
  // As the daemons report them.
  Distribution queue_ms, producer_queue_ms, producer_prefill_ms, transfer_ms, rebuild_ms, native_ms,
      server_first_token_ms;

  std::uint64_t output_tokens = 0;
  std::uint64_t prompt_tokens = 0, computed_tokens = 0, transferred_tokens = 0, cached_tokens = 0,
                stored_tokens = 0, producer_prefilled_tokens = 0;
  std::uint64_t received_bytes = 0, code_bytes = 0, raw_kv_bytes = 0;

  void Add(const RequestRecord& record);
  std::int64_t num_failed() const;
  double requests_per_s() const { return seconds > 0 ? static_cast<double>(num_ok) / seconds : 0.0; }
  double output_tokens_per_s() const {
    return seconds > 0 ? static_cast<double>(output_tokens) / seconds : 0.0;
  }
};

}  // namespace scd

#endif  // SCD_CLIENT_BENCH_LEVEL_RESULT_H_
