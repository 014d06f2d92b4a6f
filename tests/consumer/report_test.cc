#include "consumer/report.h"

#include "gtest/gtest.h"

namespace scd {
namespace {

ModelConfig Config() {
  ModelConfig config;
  config.num_layers = 30;
  config.num_kv_heads = 3;
  config.head_dim = 64;
  return config;
}

ServingRecord Record() {
  ServingRecord record;
  record.mode = "scd";
  record.prompt_tokens = 300;
  record.transferred_tokens = 270;
  record.transfer.received_bytes = 4'000'000;
  record.transfer.code_bytes_by_kind[CodeKind::kK] = 100;
  record.transfer.code_bytes_by_kind[CodeKind::kV] = 20;
  record.transfer.code_bytes_by_kind[CodeKind::kH] = 3;
  record.transfer.stored_tokens = 64;
  record.transfer.producer_queue_ms = 1;
  record.transfer.producer_prefill_ms = 2;
  record.transfer.producer_encode_ms = 3;
  record.transfer.first_frame_ms = 10;
  record.transfer.transfer_ms = 50;
  record.transfer.rebuild_ms = 7;
  record.engine.queue_ms = 5;
  record.engine.native_prefill_ms = 12;
  record.engine.first_token_ms = 70;
  record.engine.num_computed = 30;
  return record;
}

TEST(ReportTest, TokensAddUpToThePrompt) {
  const v1::TransferReport report =
      MakeReport(Record(), Config(), absl::Milliseconds(2), absl::Milliseconds(100));
  EXPECT_EQ(report.mode(), "scd");
  EXPECT_EQ(report.reason(), "");
  EXPECT_EQ(report.prompt_tokens(), 300u);
  EXPECT_EQ(report.transferred_tokens() + report.computed_tokens() + report.cached_tokens(), 300u);
  EXPECT_EQ(report.cached_tokens(), 0u);
  EXPECT_EQ(report.stored_tokens(), 64u);
  ServingRecord cached = Record();
  cached.transferred_tokens = 170;
  cached.engine.num_cached = 100;
  const v1::TransferReport second =
      MakeReport(cached, Config(), absl::Milliseconds(2), absl::Milliseconds(100));
  EXPECT_EQ(second.cached_tokens(), 100u);
  EXPECT_EQ(second.transferred_tokens() + second.computed_tokens() + second.cached_tokens(), 300u);
}

TEST(ReportTest, BytesAgainstRawKv) {
  const v1::TransferReport report =
      MakeReport(Record(), Config(), absl::Milliseconds(2), absl::Milliseconds(100));
  EXPECT_EQ(report.code_bytes(), 123u);
  EXPECT_EQ(report.received_bytes(), 4'000'000u);
  EXPECT_EQ(report.raw_kv_bytes(), 300u * 23040u);
}

TEST(ReportTest, TimesCountFromTheArrival) {
  const v1::TransferReport report =
      MakeReport(Record(), Config(), absl::Milliseconds(2), absl::Milliseconds(100));
  EXPECT_EQ(report.queue_ms(), 5);
  EXPECT_EQ(report.first_frame_ms(), 2 + 5 + 10);
  EXPECT_EQ(report.transfer_ms(), 2 + 5 + 50);
  EXPECT_EQ(report.first_token_ms(), 2 + 70);
  EXPECT_EQ(report.total_ms(), 100);
  EXPECT_EQ(report.rebuild_ms(), 7);
  EXPECT_EQ(report.native_ms(), 12);
  EXPECT_EQ(report.producer_queue_ms(), 1);
  EXPECT_EQ(report.producer_prefill_ms(), 2);
  EXPECT_EQ(report.producer_encode_ms(), 3);
}

TEST(ReportTest, FallbackNamesItsReasonAndClaimsNothingTransferred) {
  ServingRecord record = Record();
  record.mode = "local";
  record.outcome = {TransferReason::kCorruptFrame, absl::DataLossError("layer 3 k: checksum")};
  record.transferred_tokens = 0;
  record.engine.num_computed = 300;
  const v1::TransferReport report = MakeReport(record, Config(), absl::ZeroDuration(), absl::Milliseconds(1));
  EXPECT_EQ(report.mode(), "local");
  EXPECT_EQ(report.reason(), "corrupt_frame");
  EXPECT_EQ(report.detail(), "layer 3 k: checksum");
  EXPECT_EQ(report.transferred_tokens(), 0u);
  EXPECT_EQ(report.computed_tokens(), 300u);
  EXPECT_EQ(report.stored_tokens(), 0u);
  EXPECT_EQ(report.received_bytes(), 4'000'000u) << "bytes were spent all the same";
}

TEST(ReportTest, WhatNeverHappenedIsZero) {
  ServingRecord record;
  record.mode = "local";
  record.prompt_tokens = 4;
  record.engine.num_computed = 4;
  record.engine.queue_ms = 3;
  const v1::TransferReport report =
      MakeReport(record, Config(), absl::Milliseconds(2), absl::Milliseconds(9));
  EXPECT_EQ(report.first_frame_ms(), 0);
  EXPECT_EQ(report.transfer_ms(), 0);
  EXPECT_EQ(report.first_token_ms(), 0);
}

}  // namespace
}  // namespace scd
