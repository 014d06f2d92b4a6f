#include "consumer/consumer_metrics.h"

#include <array>
#include <utility>

#include "common/server/status_mapping.h"

namespace scd {
namespace {

constexpr double kSecondsPerMs = 1e-3;

using Stages = std::array<std::pair<std::string_view, double>, 8>;

// Milliseconds; the names are those of TransferReport's fields.
Stages StagesOf(const TransferStats& transfer, const EngineTimings& engine) {
  return {{{"queue", engine.queue_ms},
           {"producer_queue", transfer.producer_queue_ms},
           {"producer_prefill", transfer.producer_prefill_ms},
           {"producer_encode", transfer.producer_encode_ms},
           {"first_frame", transfer.first_frame_ms},
           {"transfer", transfer.transfer_ms},
           {"rebuild", transfer.rebuild_ms},
           {"native", engine.native_prefill_ms}}};
}

}  // namespace

ConsumerMetrics::ConsumerMetrics(MetricsRegistry& registry, std::int64_t raw_kv_bytes_per_token)
    : raw_kv_bytes_per_token_(raw_kv_bytes_per_token),
      requests_(registry, {"Generate", "Score"}),
      transfer_(registry),
      generation_(registry) {
  for (const TransferReason reason : kAllTransferReasons) {
    transfer_.DeclareFailure(TransferReasonName(reason));
    generation_.DeclareFallback(TransferReasonName(reason));
  }
  for (const auto& [stage, ms] : StagesOf({}, {})) generation_.AddStageSeconds(stage, 0);
}

void ConsumerMetrics::TransferEnded(const TransferResult& result) {
  const TransferStats& stats = result.stats;
  for (const auto& [kind, bytes] : stats.code_bytes_by_kind) {
    transfer_.AddBytes(kind, static_cast<std::int64_t>(bytes));
  }
  if (result.outcome.ok()) {
    transfer_.ObserveTransfer(stats.total_ms * kSecondsPerMs);
    generation_.AddRawKvBytes(result.range.size() * raw_kv_bytes_per_token_);
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

void ConsumerMetrics::RequestEnded(std::string_view method, absl::StatusCode code) {
  requests_.CountEnded(method, StatusCodeLabel(code));
}

void ConsumerMetrics::FirstToken(double ms, const TransferStats& transfer, const EngineTimings& engine) {
  generation_.ObserveTimeToFirstToken(ms * kSecondsPerMs);
  for (const auto& [stage, stage_ms] : StagesOf(transfer, engine)) {
    generation_.AddStageSeconds(stage, stage_ms * kSecondsPerMs);
  }
}

void ConsumerMetrics::OutputTokens(double ms_per_token) {
  generation_.ObserveTimePerOutputToken(ms_per_token * kSecondsPerMs);
}

}  // namespace scd
