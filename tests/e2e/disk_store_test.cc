// Codes on disk outlive the producer, even one that is killed, with both daemons as they are shipped.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/e2e/tiny_pair_fixture.h"

namespace scd::testing {
namespace {

class DiskStoreTest : public TinyPairFixture {
 protected:
  void Prepare(PairFiles& files) override {
    files.producer_settings.push_back("code_store.disk.path=" + Folder());
  }
  std::string Folder() const { return dir_.File("codes"); }

  // 160 tokens of document `number`, answered through codes.
  Answer Ask(int number) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 160; ++i) ids.push_back((i * 37 + number * 11) % 250);
    v1::GenerateRequest request = ConsumerClient::Request(ids, "scd", v1::POLICY_REQUIRE);
    request.mutable_transfer()->set_no_prefix_cache(true);
    return pair_->client().Generate(request);
  }
  std::int64_t NumFiles() const {
    std::int64_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Folder())) {
      count += entry.path().extension() == ".block" ? 1 : 0;
    }
    return count;
  }
  double Rows() { return pair_->producer().Metric("scd_prefill_rows_total"); }
};

TEST_F(DiskStoreTest, AKilledProducerPrefillsNoKnownPromptAgain) {
  const Answer first = Ask(1);
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_GT(Rows(), 0);
  const double blocks = pair_->producer().Metric("scd_code_store_blocks{tier=\"disk\"}");
  EXPECT_GT(blocks, 0);
  for (int i = 0; i < 1000 && static_cast<double>(NumFiles()) < blocks; ++i) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_EQ(static_cast<double>(NumFiles()), blocks);

  ASSERT_TRUE(pair_->RestartProducer().ok());
  EXPECT_NE(pair_->producer().Log().find("on disk (" + Folder()), std::string::npos);
  const Answer again = Ask(1);
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(again.ids, first.ids);
  EXPECT_EQ(again.report().mode(), "scd");
  EXPECT_EQ(again.report().producer_prefilled_tokens(), 0u);
  EXPECT_GT(again.report().stored_tokens(), 0u);
  EXPECT_EQ(Rows(), 0);
  EXPECT_GT(pair_->producer().Metric("scd_code_store_lookups_total{result=\"hit\",tier=\"disk\"}"), 0);
  // Now memory has them too.
  const double asked = pair_->producer().Metric("scd_code_store_lookups_total{result=\"hit\",tier=\"disk\"}");
  EXPECT_TRUE(Ask(1).status.ok());
  EXPECT_EQ(pair_->producer().Metric("scd_code_store_lookups_total{result=\"hit\",tier=\"disk\"}"), asked);

  // Damaged, they are dropped, and the prompt is prefilled as if there were none.
  ASSERT_TRUE(pair_->RestartProducer().ok());
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Folder())) {
    if (entry.path().extension() != ".block") continue;
    std::string bytes = ReadFile(entry.path().string());
    bytes[bytes.size() / 2] ^= 1;
    WriteFile(entry.path().string(), bytes);
  }
  const Answer damaged = Ask(1);
  ASSERT_TRUE(damaged.status.ok()) << damaged.status.error_message();
  EXPECT_EQ(damaged.ids, first.ids);
  EXPECT_GT(damaged.report().producer_prefilled_tokens(), 0u);
  EXPECT_GE(pair_->producer().Metric("scd_code_store_dropped_total{reason=\"corrupt\",tier=\"disk\"}"), 1);
}

}  // namespace
}  // namespace scd::testing
