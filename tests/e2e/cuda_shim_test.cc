// Both daemons with `device: cuda` and the backend that is compiled for the CPU: every way from prefill to
// answer treats device memory as such.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/daemon_pair.h"
#include "tests/support/temp_dir.h"

namespace scd::testing {
namespace {

v1::GenerateRequest Request(const std::string& mode) {
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < 60; ++i) prompt.push_back((i * 37 + 11) % 250);
  v1::GenerateRequest request = ConsumerClient::Request(prompt, mode, v1::POLICY_REQUIRE);
  request.mutable_transfer()->set_no_prefix_cache(true);
  return request;
}

TEST(CudaShimDaemonsTest, AnswersThroughTheCodesEqualTheModelsOwn) {
  const TempDir folder;
  auto files = MakeTinyPair(folder.path());
  ASSERT_TRUE(files.ok()) << files.status();
  for (std::vector<std::string>* settings : {&files->producer_settings, &files->consumer_settings}) {
    settings->push_back("device=cuda");
    settings->push_back("cuda.plugin=" SCD_CUDA_SHIM);
    settings->push_back("cuda.scratch_mib=4");
    settings->push_back("kv_cache.memory_mib=auto");
  }
  // The first takes all that a daemon needs: a second one, at start or while it serves, fails.
  ASSERT_EQ(setenv("SCD_CUDA_SHIM_MOST_ALLOCATIONS", "1", 1), 0);
  const auto pair = DaemonPair::Start(*files);
  ASSERT_TRUE(pair.ok()) << pair.status();
  const Answer local = (*pair)->client().Generate(Request("local"));
  ASSERT_TRUE(local.status.ok()) << local.status.error_message();
  EXPECT_FALSE(local.ids.empty());
  for (const std::string mode : {"scd", "reuse", "fused"}) {
    const Answer answer = (*pair)->client().Generate(Request(mode));
    ASSERT_TRUE(answer.status.ok()) << mode << ": " << answer.status.error_message();
    EXPECT_EQ(answer.ids, local.ids) << mode;
    EXPECT_GT(answer.report().transferred_tokens(), 40u) << mode;
  }
}

}  // namespace
}  // namespace scd::testing
