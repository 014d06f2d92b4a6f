// What the code store does for clients: known prefixes without a prefill, and never another's codes.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/producer/service_rig.h"

namespace scd {
namespace {

using ::testing::AllOf;
using testing::Eventually;
using testing::ExpectedCodes;
using testing::Fetch;
using testing::Gate;
using ::testing::HasSubstr;
using testing::PrefillOf;
using testing::Received;
using testing::ServiceRig;
using testing::SharedTinyProducer;
using testing::TestTokens;

TEST(StoredCodesTest, AKnownPrefixGivesTheSameBitsWithoutAPrefill) {
  ServiceRig rig;
  const auto stub = rig.Stub();
  const std::vector<std::int32_t> tokens = TestTokens(129);  // 8 blocks of 16 after the first token
  const Received fresh = Fetch(*stub, PrefillOf(tokens));
  ASSERT_TRUE(fresh.status.ok());
  EXPECT_GT(rig.store().size_bytes(), 0);

  Gate gate(SharedTinyProducer().backend(), -1);  // counts
  const Received stored = Fetch(*stub, PrefillOf(tokens));
  ASSERT_TRUE(stored.status.ok());
  EXPECT_EQ(gate.num_calls(), 0);
  EXPECT_EQ(stored.header->num_stored_tokens(), 128u);
  EXPECT_EQ(stored.header->end_token(), 129u);
  EXPECT_EQ(stored.codes, fresh.codes);
  EXPECT_EQ(stored.trailer->num_frames(), stored.num_frames);
  EXPECT_EQ(stored.trailer->prefill_ms(), 0);
  EXPECT_LT(stored.num_frames, fresh.num_frames);  // joined over blocks

  // The flag asks for a prefill all the same.
  v1::PrefillRequest no_store = PrefillOf(tokens);
  no_store.set_no_store(true);
  const Received again = Fetch(*stub, no_store);
  EXPECT_EQ(again.header->num_stored_tokens(), 0u);
  EXPECT_GT(gate.num_calls(), 0);
  EXPECT_EQ(again.codes, fresh.codes);

  EXPECT_TRUE(Eventually([&] { return rig.Idle() && rig.log().lines().size() == 3; }));
  EXPECT_THAT(rig.registry().Serialize(), AllOf(HasSubstr("scd_prompt_tokens_total{source=\"cached\"} 128"),
                                                HasSubstr("scd_prompt_tokens_total{source=\"computed\"} 258"),
                                                HasSubstr("scd_transfer_seconds_count 3")));
}

TEST(StoredCodesTest, ALongerPromptTakesWhatIsKnownWhereItsRestMayStayUncoded) {
  ServiceRig rig;
  const auto stub = rig.Stub();
  std::vector<std::int32_t> tokens = TestTokens(129);
  const Received fresh = Fetch(*stub, PrefillOf(tokens));
  const std::vector<std::int32_t> question = TestTokens(20, 9);
  tokens.insert(tokens.end(), question.begin(), question.end());

  Gate gate(SharedTinyProducer().backend(), -1);
  v1::PrefillRequest request = PrefillOf(tokens);
  request.set_max_uncoded_tokens(20);
  const Received known = Fetch(*stub, request);
  ASSERT_TRUE(known.status.ok());
  EXPECT_EQ(gate.num_calls(), 0);
  EXPECT_EQ(known.header->end_token(), 129u);
  EXPECT_EQ(known.header->num_stored_tokens(), 128u);
  EXPECT_EQ(known.codes, fresh.codes);

  request.set_max_uncoded_tokens(19);
  const Received whole = Fetch(*stub, request);
  ASSERT_TRUE(whole.status.ok());
  EXPECT_GT(gate.num_calls(), 0);
  EXPECT_EQ(whole.header->end_token(), 149u);
  EXPECT_EQ(whole.header->num_stored_tokens(), 0u);
  const testing::TinyProducer& tiny = SharedTinyProducer();
  EXPECT_EQ(whole.codes, ExpectedCodes(tiny.bundle(0), tiny.Plan(), tokens, 1));
}

// Integer K is grouped by tokens: chunks and blocks are cut between groups.
TEST(StoredCodesTest, IntegersAreStoredInWholeGroupsOrNotAtAll) {
  const testing::TinyProducer& tiny = SharedTinyProducer();
  const std::vector<std::int32_t> tokens = TestTokens(150);
  for (const std::int64_t chunk_tokens : {16, 64, 75}) {
    for (const std::int64_t block_tokens : {32, 48}) {
      ServiceRig rig(
          {.engine = {.chunk_tokens = chunk_tokens, .kv_tokens = 1024, .block_tokens = block_tokens}});
      const auto stub = rig.Stub();
      v1::PrefillRequest request = PrefillOf(tokens, 1, Codec::kInt4);
      request.set_max_uncoded_tokens(60);
      const Received fresh = Fetch(*stub, request);
      ASSERT_TRUE(fresh.status.ok());
      const Received again = Fetch(*stub, request);
      ASSERT_TRUE(again.status.ok());
      if (chunk_tokens < 32) {
        // Groups are cut by the chunks: right for the transfer that carries them, not for another.
        EXPECT_EQ(again.header->num_stored_tokens(), 0u);
        continue;
      }
      EXPECT_EQ(fresh.codes, ExpectedCodes(tiny.bundle(0), tiny.Plan(Codec::kInt4), tokens, 1));
      EXPECT_EQ(again.header->num_stored_tokens(), block_tokens == 32 ? 128u : 0u);
      for (const auto& [column, payload] : again.codes) {
        EXPECT_EQ(payload, fresh.codes.at(column).substr(0, payload.size()));
      }
    }
  }
}

TEST(StoredCodesTest, NothingOfOneBundlePlanOrStartServesAnother) {
  ServiceRig rig;
  const auto stub = rig.Stub();
  const testing::TinyProducer& tiny = SharedTinyProducer();
  const std::vector<std::int32_t> tokens = TestTokens(129);
  const Received first = Fetch(*stub, PrefillOf(tokens));

  v1::PrefillRequest other_bundle = PrefillOf(tokens);
  other_bundle.set_bundle_digest(std::string(tiny.bundle(1).digest().bytes()));
  const Received second = Fetch(*stub, other_bundle);
  ASSERT_TRUE(second.status.ok());
  EXPECT_EQ(second.header->num_stored_tokens(), 0u);
  EXPECT_EQ(second.header->bundle_digest(), other_bundle.bundle_digest());
  EXPECT_NE(second.codes, first.codes);
  EXPECT_EQ(second.codes, ExpectedCodes(tiny.bundle(1), tiny.Plan(), tokens, 1));

  const Received other_start = Fetch(*stub, PrefillOf(tokens, 0));
  EXPECT_EQ(other_start.header->num_stored_tokens(), 0u);
  EXPECT_EQ(other_start.codes, ExpectedCodes(tiny.bundle(0), tiny.Plan(), tokens, 0));

  const Received other_codec = Fetch(*stub, PrefillOf(tokens, 1, Codec::kF32));
  EXPECT_EQ(other_codec.header->num_stored_tokens(), 0u);
  EXPECT_EQ(other_codec.codes, ExpectedCodes(tiny.bundle(0), tiny.Plan(Codec::kF32), tokens, 1));
}

}  // namespace
}  // namespace scd
