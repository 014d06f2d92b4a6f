// Both daemons as they are shipped, with one code for K and V of each layer, which are the model's own.
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/tiny_pair_fixture.h"

namespace scd::testing {
namespace {

std::vector<std::int32_t> Prompt(std::int32_t question) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 150; ++i) ids.push_back((i * 37 + 11) % 250);
  for (std::int32_t i = 0; i < 40; ++i) ids.push_back((i * 53 + question * 17) % 250);
  return ids;
}

class FusedPairTest : public TinyPairFixture {
 protected:
  FusedPairTest() : TinyPairFixture({"max_uncoded_tokens=0", "plan.codec=auto", "mode=fused"}) {}

  Answer Ask(const std::string& mode, v1::Codec codec, bool shares, bool stored, std::int32_t question = 1) {
    v1::GenerateRequest request = ConsumerClient::Request(Prompt(question), mode, v1::POLICY_REQUIRE, 16);
    if (codec != v1::CODEC_UNSPECIFIED) request.mutable_transfer()->mutable_plan()->set_codec(codec);
    request.mutable_transfer()->set_no_prefix_cache(!shares);
    request.mutable_transfer()->set_no_code_store(!stored);
    const Answer answer = pair_->client().Generate(request);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    return answer;
  }
};

TEST_F(FusedPairTest, AnswersThroughOneCodeEqualTheModelsOwn) {
  const Answer local = Ask("local", v1::CODEC_UNSPECIFIED, false, false);
  const Answer fused = Ask("fused", v1::CODEC_F32, false, false);
  EXPECT_EQ(fused.ids, local.ids);
  EXPECT_EQ(fused.report().mode(), "fused");
  EXPECT_TRUE(pair_->BecomesIdle(1));
}

TEST_F(FusedPairTest, TheServersModeAndCodecAreTakenWhereARequestSaysNothing) {
  const Answer own = Ask("", v1::CODEC_UNSPECIFIED, false, false);
  EXPECT_EQ(own.report().mode(), "fused");
  EXPECT_EQ(own.report().code_bytes(), Ask("fused", v1::CODEC_ENTROPY, false, false).report().code_bytes());
  EXPECT_NE(own.report().code_bytes(), Ask("fused", v1::CODEC_BF16, false, false).report().code_bytes());
}

TEST_F(FusedPairTest, FreshStoredAndCachedAgree) {
  for (const v1::Codec codec : {v1::CODEC_ENTROPY, v1::CODEC_BF16, v1::CODEC_INT8}) {
    SCOPED_TRACE(v1::Codec_Name(codec));
    const Answer fresh = Ask("fused", codec, false, false);
    const Answer first = Ask("fused", codec, false, true);
    const Answer stored = Ask("fused", codec, false, true);
    EXPECT_GT(stored.report().stored_tokens(), 120u);
    const Answer shared = Ask("fused", codec, true, true);
    const Answer cached = Ask("fused", codec, true, true);
    EXPECT_GE(cached.report().cached_tokens(), 160u);
    for (const Answer* answer : {&first, &stored, &shared, &cached}) EXPECT_EQ(answer->ids, fresh.ids);
    const Answer other = Ask("fused", codec, true, true, 2);
    EXPECT_EQ(other.report().cached_tokens(), 128u);
    EXPECT_EQ(other.ids, Ask("fused", codec, false, false, 2).ids);
  }
}

}  // namespace
}  // namespace scd::testing
