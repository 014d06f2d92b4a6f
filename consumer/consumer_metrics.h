// The consumer's counters, fed from what happened to each prompt.
#ifndef SCD_CONSUMER_CONSUMER_METRICS_H_
#define SCD_CONSUMER_CONSUMER_METRICS_H_

#include <cstdint>

#include "common/server/metrics.h"
#include "consumer/transfer_client.h"
#include "consumer/transfer_reason.h"

namespace scd {

class ConsumerMetrics {
 public:
  // `registry` outlives this.
  explicit ConsumerMetrics(MetricsRegistry& registry) : transfer_(registry), generation_(registry) {}

  void TransferEnded(const TransferResult& result);
  // A prompt was served natively that was to be transferred.
  void FellBack(TransferReason reason);
  void PromptServed(std::int64_t transferred, std::int64_t computed, std::int64_t cached);
  void FirstToken(double ms);
  void OutputTokens(double ms_per_token);

 private:
  TransferMetrics transfer_;
  GenerationMetrics generation_;
};

}  // namespace scd

#endif  // SCD_CONSUMER_CONSUMER_METRICS_H_
