#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "calibrate/sampling_batch.h"
#include "calibrate/self_sampler.h"
#include "tests/calibrate/tiny_run.h"

namespace scd {
namespace {

using ::testing::HasSubstr;
using testing::TinyRun;

TEST(SampleTokenTest, FollowsTheDistributionAndNeverABannedId) {
  const std::vector<float> logits = {0.0f, std::log(3.0f), 50.0f, -1000.0f, 40.0f};
  const std::vector<bool> banned = {false, false, true, false};  // id 4 lies beyond the list
  std::mt19937_64 random(1);
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < 8000; ++i) ++counts[SampleToken(logits, banned, 1.0, random)];
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_NEAR(counts[1] / 8000.0, 0.75, 0.03);
  counts.clear();
  for (int i = 0; i < 8000; ++i) ++counts[SampleToken(logits, banned, 0.5, random)];
  EXPECT_NEAR(counts[1] / 8000.0, 0.9, 0.03);
}

class SamplingTest : public ::testing::Test {
 protected:
  SamplingRules Rules() {
    return {.tokenizer = run_.pair().consumer.tokenizer.get(),
            .banned = BannedIds(*run_.pair().consumer.tokenizer, run_.pair().vocab_size(), {700}),
            .max_tokens = 60};
  }
  absl::StatusOr<Prefixes> Sample(const std::string& seeds, std::int64_t count) {
    testing::WriteFile(run_.File("seeds.txt"), seeds);
    const CorpusSource source{.path = run_.File("seeds.txt"), .limit = count, .num_tokens = 30, .seed = 4};
    return SamplePrefixes(run_.context(), *run_.loaded().producer, *run_.loaded().consumer, Rules(), source,
                          "sampled", run_.pair().digest());
  }
  TinyRun run_;
};

TEST_F(SamplingTest, PrefixesStartWithTheirSeedsAndHaveTheAskedLength) {
  const Prefixes prefixes = Sample("Hello there\n\nContext: a {9}\nQuestion: b{4}\nAnswer:\n", 70).value();
  ASSERT_EQ(prefixes.size(), 70u);
  const Tokenizer& tokenizer = *run_.pair().consumer.tokenizer;
  const SamplingRules rules = Rules();
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    const std::string text = tokenizer.Decode(prefixes[i], true);
    if (i % 2 == 0) {
      EXPECT_EQ(prefixes[i].size(), 30u);
      EXPECT_THAT(text, ::testing::StartsWith("Hello there"));
    } else {
      EXPECT_THAT(text, ::testing::StartsWith("Context: a "));
      EXPECT_THAT(text, HasSubstr("\nQuestion: b"));
      EXPECT_THAT(text, ::testing::EndsWith("\nAnswer:"));
    }
    for (const std::int32_t id : prefixes[i]) EXPECT_NE(id, 700);
  }
  EXPECT_NE(prefixes[0], prefixes[2]);  // one seed, other random numbers
}

TEST_F(SamplingTest, EqualSeedsGiveEqualPrefixesAndDoneBatchesAreKept) {
  const Prefixes first = Sample("Hello\n", 40).value();
  run_.OpenWork();
  const Prefixes kept = Sample("Hello\n", 40).value();
  EXPECT_THAT(run_.log().text, HasSubstr("40 of 40 prefixes were made by an earlier run"));
  EXPECT_EQ(kept, first);
  TinyRun other;
  testing::WriteFile(other.File("seeds.txt"), "Hello\n");
  const CorpusSource source{.path = other.File("seeds.txt"), .limit = 40, .num_tokens = 30, .seed = 4};
  EXPECT_EQ(SamplePrefixes(other.context(), *other.loaded().producer, *other.loaded().consumer, Rules(),
                           source, "sampled", other.pair().digest())
                .value(),
            first);
}

TEST_F(SamplingTest, AStopAndBadSeedsAreTold) {
  run_.stop().request_stop();
  EXPECT_TRUE(absl::IsCancelled(Sample("Hello\n", 40).status()));
  EXPECT_THAT(Sample("{3}\n", 4).status().message(), HasSubstr("seeds.txt:1"));
}

}  // namespace
}  // namespace scd
