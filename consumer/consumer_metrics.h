// The consumer's counters, fed from what happened to each prompt.
#ifndef SCD_CONSUMER_CONSUMER_METRICS_H_
#define SCD_CONSUMER_CONSUMER_METRICS_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "common/server/metrics.h"
#include "consumer/engine.h"
#include "consumer/transfer_client.h"
#include "consumer/transfer_reason.h"

namespace scd {

class ConsumerMetrics {
 public:
  // `registry` outlives this.
  ConsumerMetrics(MetricsRegistry& registry, std::int64_t raw_kv_bytes_per_token);

  void TransferEnded(const TransferResult& result);
  // A prompt was served natively that was to be transferred.
  void FellBack(TransferReason reason);
  void PromptServed(std::int64_t transferred, std::int64_t computed, std::int64_t cached);
  // `method`: the RPC's name.
  void RequestEnded(std::string_view method, absl::StatusCode code);
  // Of a request whose first token came `ms` after it.
  void FirstToken(double ms, const TransferStats& transfer, const EngineTimings& engine);
  void OutputTokens(double ms_per_token);

 private:
  const std::int64_t raw_kv_bytes_per_token_;
  RequestMetrics requests_;
  TransferMetrics transfer_;
  GenerationMetrics generation_;
};

}  // namespace scd

#endif  // SCD_CONSUMER_CONSUMER_METRICS_H_
