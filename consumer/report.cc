#include "consumer/report.h"

#include <string>

namespace scd {

v1::TransferReport MakeReport(const ServingRecord& record, const ModelConfig& config,
                              absl::Duration before_submit, absl::Duration total) {
  const TransferStats& transfer = record.transfer;
  const double before_ms = absl::ToDoubleMilliseconds(before_submit);
  v1::TransferReport report;
  report.set_mode(record.mode);
  report.set_reason(std::string(TransferReasonName(record.outcome.reason)));
  report.set_detail(std::string(record.outcome.status.message()));
  report.set_prompt_tokens(static_cast<std::uint32_t>(record.prompt_tokens));
  report.set_transferred_tokens(static_cast<std::uint32_t>(record.transferred_tokens));
  report.set_computed_tokens(static_cast<std::uint32_t>(record.engine.num_computed));
  report.set_cached_tokens(static_cast<std::uint32_t>(record.engine.num_cached));
  // Of a failed transfer nothing was used, whatever the producer had stored.
  if (record.outcome.ok()) {
    report.set_stored_tokens(static_cast<std::uint32_t>(transfer.stored_tokens));
    report.set_shared_store_tokens(static_cast<std::uint32_t>(transfer.shared_store_tokens));
  }
  report.set_producer_prefilled_tokens(static_cast<std::uint32_t>(transfer.producer_prefilled_tokens));
  report.set_received_bytes(transfer.received_bytes);
  report.set_code_bytes(transfer.code_bytes());
  report.set_raw_kv_bytes(static_cast<std::uint64_t>(record.prompt_tokens * config.raw_kv_bytes_per_token()));
  report.set_queue_ms(record.engine.queue_ms);
  report.set_producer_queue_ms(transfer.producer_queue_ms);
  report.set_producer_prefill_ms(transfer.producer_prefill_ms);
  report.set_producer_encode_ms(transfer.producer_encode_ms);
  // The transfer starts when the engine has admitted the request.
  const double transfer_start_ms = before_ms + record.engine.queue_ms;
  if (transfer.first_frame_ms > 0) report.set_first_frame_ms(transfer_start_ms + transfer.first_frame_ms);
  if (transfer.transfer_ms > 0) report.set_transfer_ms(transfer_start_ms + transfer.transfer_ms);
  report.set_rebuild_ms(transfer.rebuild_ms);
  report.set_native_ms(record.engine.native_prefill_ms);
  if (record.engine.first_token_ms > 0) report.set_first_token_ms(before_ms + record.engine.first_token_ms);
  report.set_total_ms(absl::ToDoubleMilliseconds(total));
  return report;
}

}  // namespace scd
