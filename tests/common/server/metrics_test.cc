#include "common/server/metrics.h"

#include <string>

#include "common/server/metrics_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/loopback.h"

namespace scd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsTest, ScrapedOverHttp) {
  MetricsRegistry registry;
  InfoMetrics info(registry);
  info.SetBuild("scd-test", "1.2");
  info.SetModel("a \"model\"", "0123");
  info.AddBundle("b/1", "4567");
  info.AddBundle("b/2", "89ab");
  TransferMetrics transfers(registry);
  transfers.AddBytes(CodeKind::kK, 100);
  transfers.AddBytes(CodeKind::kV, 10);
  transfers.AddBytes(CodeKind::kV, 20);
  transfers.AddBytes(CodeKind::kH, 7);
  for (std::int64_t kind = 1; kind <= kNumCodeKinds; ++kind)
    transfers.AddBytes(static_cast<CodeKind>(kind), 0);
  transfers.ObserveTransfer(400);
  transfers.CountFailure("cancelled");
  transfers.CountFailure("cancelled");
  transfers.AddPromptTokens(TransferMetrics::TokenSource::kTransferred, 5);
  transfers.AddPromptTokens(TransferMetrics::TokenSource::kComputed, 6);
  transfers.AddPromptTokens(TransferMetrics::TokenSource::kCached, 7);
  double pages = 3;
  registry.AddGauge("scd_kv_pages_used", "Pages.", [&pages] { return pages; });
  registry.AddCounter("scd_hits_total", "Hits.", [] { return 8.0; });
  for (const char* tier : {"memory", "disk"}) {
    registry.AddGauge("scd_blocks", "Blocks.", [tier] { return tier[0] == 'm' ? 4.0 : 5.0; },
                      {{"tier", tier}});
  }

  const auto server = MetricsServer::Start({"127.0.0.1", 0}, registry);
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_GT((*server)->address().port, 0);
  std::string text = testing::HttpGet((*server)->address().port, "/metrics");
  EXPECT_THAT(text, HasSubstr("200 OK"));
  for (const char* line :
       {"scd_build_info{program=\"scd-test\",version=\"1.2\"} 1",
        "scd_bundle_info{digest=\"4567\",path=\"b/1\"} 1", "scd_bundle_info{digest=\"89ab\",path=\"b/2\"} 1",
        "scd_transfer_bytes_total{kind=\"k\"} 100", "scd_transfer_bytes_total{kind=\"v\"} 30",
        "scd_transfer_bytes_total{kind=\"h\"} 7", "scd_transfer_seconds_bucket{le=\"300\"} 0",
        "scd_transfer_seconds_bucket{le=\"600\"} 1", "scd_transfer_seconds_count 1",
        "scd_transfers_failed_total{reason=\"cancelled\"} 2",
        "scd_prompt_tokens_total{source=\"transferred\"} 5", "scd_prompt_tokens_total{source=\"computed\"} 6",
        "scd_prompt_tokens_total{source=\"cached\"} 7", "scd_kv_pages_used 3",
        "# HELP scd_kv_pages_used Pages.", "# TYPE scd_kv_pages_used gauge", "scd_hits_total 8",
        "# TYPE scd_hits_total counter",
        "# TYPE scd_blocks gauge\nscd_blocks{tier=\"memory\"} 4\nscd_blocks{tier=\"disk\"} 5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, HasSubstr("scd_model_info{digest=\"0123\",model=\"a \\\"model\\\"\"} 1"));
  // What nobody made is not there.
  EXPECT_THAT(text, Not(HasSubstr("scd_fallbacks_total")));
  EXPECT_THAT(text, Not(HasSubstr("scd_time_to_first_token_seconds")));

  pages = 4;
  EXPECT_THAT(testing::HttpGet((*server)->address().port, "/metrics"), HasSubstr("scd_kv_pages_used 4"));
  registry.ClearGauges();
  EXPECT_THAT(testing::HttpGet((*server)->address().port, "/metrics"), Not(HasSubstr("scd_kv_pages_used")));
}

TEST(MetricsTest, GenerationHistogramsReachTenMinutes) {
  MetricsRegistry registry;
  GenerationMetrics generation(registry);
  generation.ObserveTimeToFirstToken(0.02);
  generation.ObserveTimePerOutputToken(599);
  generation.CountFallback("short_prompt");
  generation.DeclareFallback("deadline");
  generation.AddStageSeconds("rebuild", 0.25);
  generation.AddStageSeconds("rebuild", 0.5);
  generation.AddRawKvBytes(46080);
  RequestMetrics requests(registry, {"Score"});
  requests.CountEnded("Generate", "ok");
  const std::string text = registry.Serialize();
  for (const char* line :
       {"scd_fallbacks_total{reason=\"deadline\"} 0", "scd_ttft_stage_seconds_total{stage=\"rebuild\"} 0.75",
        "scd_raw_kv_bytes_total 46080", "scd_requests_total{code=\"ok\",method=\"Score\"} 0",
        "scd_requests_total{code=\"ok\",method=\"Generate\"} 1"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, HasSubstr("scd_time_to_first_token_seconds_bucket{le=\"0.01\"} 0"));
  EXPECT_THAT(text, HasSubstr("scd_time_to_first_token_seconds_bucket{le=\"0.025\"} 1"));
  EXPECT_THAT(text, HasSubstr("scd_time_per_output_token_seconds_bucket{le=\"60\"} 0"));
  EXPECT_THAT(text, HasSubstr("scd_time_per_output_token_seconds_bucket{le=\"600\"} 1"));
  EXPECT_THAT(text, HasSubstr("scd_fallbacks_total{reason=\"short_prompt\"} 1"));
  EXPECT_THAT(text, Not(HasSubstr("scd_transfer")));
}

TEST(MetricsTest, AnAddressInUseIsAnError) {
  MetricsRegistry registry;
  const auto first = MetricsServer::Start({"127.0.0.1", 0}, registry);
  ASSERT_TRUE(first.ok());
  const auto second = MetricsServer::Start((*first)->address(), registry);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr((*first)->address().ToString()));
}

}  // namespace
}  // namespace scd
