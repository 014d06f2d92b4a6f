#include "client/bench/level_result.h"

#include <algorithm>

#include "common/server/status_mapping.h"

namespace scd {
namespace {

constexpr double kMsPerS = 1e3;

}  // namespace

void LevelResult::Add(const RequestRecord& record) {
  seconds = std::max(seconds, record.end_s);
  if (!record.status.ok()) {
    Failures& failures = errors[std::string(StatusCodeLabel(record.status.code()))];
    if (++failures.count == 1) failures.first_message = std::string(record.status.message());
    return;
  }
  ++num_ok;
  const std::vector<double>& times = record.token_times_s;
  start_delay_ms.Add(kMsPerS * (record.sent_s - record.intended_s));
  end_to_end_ms.Add(kMsPerS * (record.end_s - record.intended_s));
  output_tokens += times.size();
  if (!times.empty()) ttft_ms.Add(kMsPerS * (times.front() - record.intended_s));
  if (times.size() > 1) {
    tpot_ms.Add(kMsPerS * (times.back() - times.front()) / static_cast<double>(times.size() - 1));
  }
  for (std::size_t i = 1; i < times.size(); ++i) inter_token_ms.Add(kMsPerS * (times[i] - times[i - 1]));

  const v1::TransferReport& report = record.report;
  ++modes[report.mode()];
  if (!report.reason().empty()) ++reasons[report.reason()];
  queue_ms.Add(report.queue_ms());
  producer_queue_ms.Add(report.producer_queue_ms());
  producer_prefill_ms.Add(report.producer_prefill_ms());
  transfer_ms.Add(report.transfer_ms());
  rebuild_ms.Add(report.rebuild_ms());
  native_ms.Add(report.native_ms());
  server_first_token_ms.Add(report.first_token_ms());
  prompt_tokens += report.prompt_tokens();
  computed_tokens += report.computed_tokens();
  transferred_tokens += report.transferred_tokens();
  cached_tokens += report.cached_tokens();
  stored_tokens += report.stored_tokens();
  producer_prefilled_tokens += report.producer_prefilled_tokens();
  received_bytes += report.received_bytes();
  code_bytes += report.code_bytes();
  raw_kv_bytes += report.raw_kv_bytes();
}

std::int64_t LevelResult::num_failed() const {
  std::int64_t count = 0;
  for (const auto& [code, failures] : errors) count += failures.count;
  return count;
}

}  // namespace scd
