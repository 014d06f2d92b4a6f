#include "consumer/consumer_metrics.h"

namespace scd {
namespace {

constexpr double kSecondsPerMs = 1e-3;

}  // namespace

void ConsumerMetrics::TransferEnded(const TransferResult& result) {
  const TransferStats& stats = result.stats;
  for (const auto& [kind, bytes] : stats.code_bytes_by_kind) {
    transfer_.AddBytes(kind, static_cast<std::int64_t>(bytes));
  }
  if (result.outcome.ok()) {
    transfer_.ObserveTransfer(stats.total_ms * kSecondsPerMs);
  } else {
    transfer_.CountFailure(TransferReasonName(result.outcome.reason));
  }
}

void ConsumerMetrics::FellBack(TransferReason reason) {
  generation_.CountFallback(TransferReasonName(reason));
}

void ConsumerMetrics::PromptServed(std::int64_t transferred, std::int64_t computed, std::int64_t cached) {
  transfer_.AddPromptTokens(TransferMetrics::TokenSource::kTransferred, transferred);
  transfer_.AddPromptTokens(TransferMetrics::TokenSource::kComputed, computed);
  transfer_.AddPromptTokens(TransferMetrics::TokenSource::kCached, cached);
}

void ConsumerMetrics::FirstToken(double ms) {
  generation_.ObserveTimeToFirstToken(ms * kSecondsPerMs);
}

void ConsumerMetrics::OutputTokens(double ms_per_token) {
  generation_.ObserveTimePerOutputToken(ms_per_token * kSecondsPerMs);
}

}  // namespace scd
