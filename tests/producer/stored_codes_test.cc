// What the code store does for clients: known prefixes without a prefill, and never another's codes.
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/producer/service_rig.h"
#include "tests/support/blocking_code_store.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::AllOf;
using testing::Eventually;
using testing::ExpectedCodes;
using testing::Fetch;
using testing::Gate;
using ::testing::HasSubstr;
using testing::Joined;
using testing::PrefillOf;
using testing::Received;
using testing::ServiceRig;
using testing::SharedTinyProducer;
using testing::TestTokens;

TEST(StoredCodesTest, AKnownPrefixGivesTheSameBitsWithoutAPrefill) {
  ServiceRig rig;
  const auto stub = rig.Stub();
  const std::vector<std::int32_t> tokens = TestTokens(128);  // 8 blocks of 16
  const Received fresh = Fetch(*stub, PrefillOf(tokens));
  ASSERT_TRUE(fresh.status.ok());
  EXPECT_EQ(fresh.trailer->num_prefilled_tokens(), 128u);
  EXPECT_EQ(fresh.trailer->num_cached_tokens(), 0u);
  EXPECT_EQ(fresh.trailer->num_stored_tokens(), 0u);
  EXPECT_GT(rig.store().size_bytes(), 0);

  Gate gate(SharedTinyProducer().backend(), -1);  // counts
  const Received stored = Fetch(*stub, PrefillOf(tokens));
  ASSERT_TRUE(stored.status.ok());
  EXPECT_EQ(gate.num_calls(), 0);
  EXPECT_EQ(stored.header->num_stored_tokens(), 127u);
  EXPECT_EQ(stored.header->end_token(), 128u);
  EXPECT_TRUE(stored.codes == fresh.codes);
  EXPECT_EQ(stored.trailer->num_frames(), stored.num_frames);
  EXPECT_EQ(stored.trailer->prefill_ms(), 0);
  EXPECT_EQ(stored.trailer->num_prefilled_tokens(), 0u);
  EXPECT_EQ(stored.trailer->num_cached_tokens(), 128u);
  EXPECT_EQ(stored.trailer->num_stored_tokens(), 127u);
  EXPECT_LT(stored.num_frames, fresh.num_frames);  // joined over blocks

  // The flag asks for a prefill all the same.
  v1::PrefillRequest no_store = PrefillOf(tokens);
  no_store.set_no_store(true);
  const Received again = Fetch(*stub, no_store);
  EXPECT_EQ(again.header->num_stored_tokens(), 0u);
  EXPECT_EQ(again.trailer->num_prefilled_tokens(), 128u);
  EXPECT_GT(gate.num_calls(), 0);
  EXPECT_TRUE(again.codes == fresh.codes);

  EXPECT_TRUE(Eventually([&] { return rig.Idle() && rig.log().lines().size() == 3; }));
  EXPECT_THAT(rig.log().lines()[1], HasSubstr("prefilled=0 cached=128 stored=127 "));
  EXPECT_THAT(rig.registry().Serialize(), AllOf(HasSubstr("scd_prompt_tokens_total{source=\"cached\"} 127"),
                                                HasSubstr("scd_prompt_tokens_total{source=\"computed\"} 256"),
                                                HasSubstr("scd_transfer_seconds_count 3")));
}

TEST(StoredCodesTest, ALongerPromptGoesOnBehindWhatIsKnown) {
  ServiceRig rig;
  const auto stub = rig.Stub();
  const Received fresh = Fetch(*stub, PrefillOf(TestTokens(128)));
  const std::vector<std::int32_t> tokens = Joined(TestTokens(128), TestTokens(20, 9));

  // Where its rest may stay without codes nothing is prefilled.
  Gate gate(SharedTinyProducer().backend(), -1);
  v1::PrefillRequest request = PrefillOf(tokens);
  request.set_max_uncoded_tokens(20);
  const Received known = Fetch(*stub, request);
  ASSERT_TRUE(known.status.ok());
  EXPECT_EQ(gate.num_calls(), 0);
  EXPECT_EQ(known.header->end_token(), 128u);
  EXPECT_EQ(known.header->num_stored_tokens(), 127u);
  EXPECT_TRUE(known.codes == fresh.codes);

  request.set_max_uncoded_tokens(19);
  const Received whole = Fetch(*stub, request);
  ASSERT_TRUE(whole.status.ok());
  EXPECT_EQ(whole.header->end_token(), 148u);
  EXPECT_EQ(whole.header->num_stored_tokens(), 127u);
  EXPECT_EQ(whole.trailer->num_stored_tokens(), 127u);
  EXPECT_EQ(whole.trailer->num_cached_tokens(), 128u);
  EXPECT_EQ(whole.trailer->num_prefilled_tokens(), 20u);
  const testing::TinyProducer& tiny = SharedTinyProducer();
  EXPECT_TRUE(whole.codes == ExpectedCodes(tiny.bundle(0), tiny.Plan(), tokens, 1));

  // A consumer that has the first blocks itself.
  const Received later = Fetch(*stub, PrefillOf(tokens, 96));
  EXPECT_EQ(later.trailer->num_stored_tokens(), 48u);
  EXPECT_EQ(later.trailer->num_prefilled_tokens(), 4u);
  EXPECT_TRUE(later.codes == ExpectedCodes(tiny.bundle(0), tiny.Plan(), tokens, 96));
}

TEST(StoredCodesTest, EightClientsOfOneDocumentPrefillItOnce) {
  ServiceRig rig;
  const testing::TinyProducer& tiny = SharedTinyProducer();
  std::vector<std::jthread> clients;
  for (std::uint32_t i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      const std::vector<std::int32_t> tokens = Joined(TestTokens(400), TestTokens(20, 50 + i));
      const Received received = Fetch(*rig.Stub(), PrefillOf(tokens));
      ASSERT_TRUE(received.status.ok()) << received.status.error_message();
      EXPECT_TRUE(received.codes == ExpectedCodes(tiny.bundle(0), tiny.Plan(), tokens, 1));
      EXPECT_EQ(received.trailer->num_prefilled_tokens() + received.trailer->num_cached_tokens(), 420u);
      EXPECT_LE(received.header->num_stored_tokens(), received.trailer->num_stored_tokens());
    });
  }
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return rig.Idle(); }));
  grpc::ClientContext context;
  v1::ProducerInfo info;
  ASSERT_TRUE(rig.Stub()->Info(&context, {}, &info).ok());
  EXPECT_EQ(info.prefilled_tokens(), 400u + 8 * 20);
  EXPECT_EQ(info.skipped_tokens(), 7u * 400);
  EXPECT_EQ(info.prefix_hits(), 7u);
  EXPECT_EQ(info.kv_pages_total(), 64u);
  EXPECT_EQ(info.kv_pages_used(), 0u);
  EXPECT_EQ(info.kv_pages_cached(), 25u + 8);  // 420 tokens are 26 whole blocks
  EXPECT_EQ(info.kv_pages_evicted(), 0u);
}

TEST(StoredCodesTest, CodesOnDiskOutliveTheProducer) {
  const testing::TempDir dir;
  const std::vector<std::int32_t> tokens = TestTokens(128);
  Received fresh;
  for (int run = 0; run < 2; ++run) {
    ServiceRig rig({.disk_path = dir.File("codes")});
    Gate gate(SharedTinyProducer().backend(), -1);  // counts
    const Received received = Fetch(*rig.Stub(), PrefillOf(tokens));
    ASSERT_TRUE(received.status.ok());
    EXPECT_EQ(received.trailer->num_prefilled_tokens(), run == 0 ? 128u : 0u);
    EXPECT_EQ(received.trailer->num_stored_tokens(), run == 0 ? 0u : 127u);
    EXPECT_EQ(gate.num_calls() == 0, run == 1);
    if (run == 0) fresh = received;
    EXPECT_TRUE(received.codes == fresh.codes);
    grpc::ClientContext context;
    v1::ProducerInfo info;
    ASSERT_TRUE(rig.Stub()->Info(&context, {}, &info).ok());
    ASSERT_EQ(info.code_store_tiers_size(), 2);
    EXPECT_EQ(info.code_store_tiers(0).tier(), "memory");
    EXPECT_EQ(info.code_store_bytes(), info.code_store_tiers(0).bytes());
    EXPECT_EQ(info.code_store_tiers(1).place(), dir.File("codes"));
    EXPECT_EQ(info.code_store_tiers(1).blocks(), 8u);
    EXPECT_EQ(info.code_store_tiers(1).hits(), run == 0 ? 0u : 8u);
  }
}

// Its pages are gone, so a longer prompt is run whole for the state of its rest; the codes that are known are
// sent before that, and not made again.
TEST(StoredCodesTest, KnownCodesWithoutPagesAreSentAtOnceAndNotMadeAgain) {
  const testing::TempDir dir;
  const testing::TinyProducer& tiny = SharedTinyProducer();
  const std::vector<std::int32_t> tokens = TestTokens(128);
  const std::vector<std::int32_t> longer = Joined(tokens, TestTokens(40, 9));
  {
    ServiceRig rig({.disk_path = dir.File("codes")});
    ASSERT_TRUE(Fetch(*rig.Stub(), PrefillOf(tokens)).status.ok());
  }
  ServiceRig rig({.disk_path = dir.File("codes")});
  const auto stub = rig.Stub();
  {
    Gate gate(SharedTinyProducer().backend(), 0);
    Received received;
    testing::StreamChecker checker(received);
    grpc::ClientContext context;
    const auto reader = stub->Prefill(&context, PrefillOf(longer));
    v1::PrefillResponse message;
    const std::uint64_t num_columns = PlanColumns(tiny.Plan()).size();
    while (received.num_frames < num_columns && reader->Read(&message)) checker.Take(std::move(message));
    gate.WaitReached();  // the first layer's attention has not run
    EXPECT_EQ(received.header->num_stored_tokens(), 127u);
    EXPECT_EQ(received.header->end_token(), 168u);
    EXPECT_EQ(received.codes.size(), num_columns);
    gate.Open();
    while (reader->Read(&message)) checker.Take(std::move(message));
    ASSERT_TRUE(reader->Finish().ok());
    EXPECT_EQ(received.trailer->num_prefilled_tokens(), 168u);
    EXPECT_EQ(received.trailer->num_cached_tokens(), 0u);
    EXPECT_EQ(received.trailer->num_stored_tokens(), 127u);
    EXPECT_TRUE(received.codes == ExpectedCodes(tiny.bundle(0), tiny.Plan(), longer, 1));
  }
  // What that left is whole again: pages of all whole blocks, and codes of the new ones.
  Gate gate(SharedTinyProducer().backend(), -1);
  const std::vector<std::int32_t> longest = Joined(longer, TestTokens(4, 10));
  const Received rest = Fetch(*stub, PrefillOf(longest));
  ASSERT_TRUE(rest.status.ok());
  EXPECT_EQ(rest.trailer->num_cached_tokens(), 160u);
  EXPECT_EQ(rest.trailer->num_stored_tokens(), 159u);
  EXPECT_EQ(rest.trailer->num_prefilled_tokens(), 12u);
  EXPECT_TRUE(rest.codes == ExpectedCodes(tiny.bundle(0), tiny.Plan(), longest, 1));
}

// A store that keeps its answer back holds up who asks it and nobody else.
TEST(StoredCodesTest, ASlowStoreHoldsNobodyElseUp) {
  const testing::TinyProducer& tiny = SharedTinyProducer();
  testing::BlockingCodeStore store(1 << 24);
  ServiceRig rig({.store = &store});
  const auto stub = rig.Stub();
  const std::vector<std::int32_t> known = TestTokens(128);
  ASSERT_TRUE(Fetch(*stub, PrefillOf(known)).status.ok());

  // Stops a prefill in its first chunk: its later ones run while the store is blocked.
  Gate gate(SharedTinyProducer().backend(), 0);
  Received running;
  std::jthread runner([&] {
    v1::PrefillRequest request = PrefillOf(Joined(known, TestTokens(100, 2)));
    running = Fetch(*stub, request);
  });
  gate.WaitReached();
  store.SetBlocked(true);
  std::vector<Received> held(6);
  std::vector<std::jthread> clients;
  for (std::uint32_t i = 0; i < held.size(); ++i) {
    clients.emplace_back(
        [&, i] { held[i] = Fetch(*stub, PrefillOf(Joined(known, TestTokens(20, 50 + i)))); });
  }
  EXPECT_TRUE(Eventually([&] { return store.num_held() > 0; }));
  gate.Open();
  runner.join();
  ASSERT_TRUE(running.status.ok()) << running.status.error_message();
  EXPECT_EQ(running.trailer->num_prefilled_tokens() + running.trailer->num_cached_tokens(), 228u);

  // One that asks nothing of the store, and Info.
  v1::PrefillRequest fresh = PrefillOf(TestTokens(50, 3));
  fresh.set_no_store(true);
  const Received other = Fetch(*stub, fresh);
  ASSERT_TRUE(other.status.ok()) << other.status.error_message();
  EXPECT_TRUE(Eventually([&] {
    grpc::ClientContext context;
    v1::ProducerInfo info;
    return stub->Info(&context, {}, &info).ok() && info.requests_in_flight() == held.size();
  }));

  store.SetBlocked(false);
  clients.clear();
  for (std::uint32_t i = 0; i < held.size(); ++i) {
    ASSERT_TRUE(held[i].status.ok()) << held[i].status.error_message();
    EXPECT_EQ(held[i].trailer->num_stored_tokens(), 127u);
    EXPECT_TRUE(held[i].codes ==
                ExpectedCodes(tiny.bundle(0), tiny.Plan(), Joined(known, TestTokens(20, 50 + i)), 1));
  }
  EXPECT_TRUE(Eventually([&] { return rig.Idle(); }));
}

TEST(StoredCodesTest, AClientThatLeavesASlowStoreIsGone) {
  testing::BlockingCodeStore store(1 << 24);
  ServiceRig rig({.store = &store});
  const auto stub = rig.Stub();
  store.SetBlocked(true);
  grpc::ClientContext context;
  const auto reader = stub->Prefill(&context, PrefillOf(TestTokens(128)));
  EXPECT_TRUE(Eventually([&] { return store.num_held() == 1; }));
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // A shutdown ends those that wait as well.
  grpc::ClientContext second;
  const auto waiting = stub->Prefill(&second, PrefillOf(TestTokens(128)));
  EXPECT_TRUE(Eventually([&] { return store.num_held() == 2; }));
  rig.service().CancelRequests();
  EXPECT_EQ(waiting->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  store.SetBlocked(false);
  EXPECT_TRUE(Eventually([&] { return rig.Idle(); }));
  EXPECT_EQ(rig.engine().stats().prefilled_tokens, 0);
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
      const v1::PrefillRequest request = PrefillOf(tokens, 1, Codec::kInt4);
      const Received fresh = Fetch(*stub, request);
      ASSERT_TRUE(fresh.status.ok());
      const Received again = Fetch(*stub, request);
      ASSERT_TRUE(again.status.ok());
      if (chunk_tokens < 32) {
        // Groups are cut by the chunks: right for the transfer that carries them, not for another.
        EXPECT_EQ(again.trailer->num_stored_tokens(), 0u);
        continue;
      }
      EXPECT_TRUE(fresh.codes == ExpectedCodes(tiny.bundle(0), tiny.Plan(Codec::kInt4), tokens, 1));
      EXPECT_EQ(again.trailer->num_stored_tokens(), block_tokens == 32 ? 127u : 0u);
      EXPECT_TRUE(again.codes == fresh.codes);
      // Groups do not depend on where a request begins.
      const Received later = Fetch(*stub, PrefillOf(tokens, 64, Codec::kInt4));
      EXPECT_EQ(later.trailer->num_stored_tokens(), block_tokens == 32 ? 64u : 0u);
      EXPECT_TRUE(later.codes == ExpectedCodes(tiny.bundle(0), tiny.Plan(Codec::kInt4), tokens, 64));
    }
  }
}

TEST(StoredCodesTest, NothingOfOneBundleOrPlanServesAnother) {
  ServiceRig rig;
  const auto stub = rig.Stub();
  const testing::TinyProducer& tiny = SharedTinyProducer();
  const std::vector<std::int32_t> tokens = TestTokens(129);
  const Received first = Fetch(*stub, PrefillOf(tokens));

  v1::PrefillRequest other_bundle = PrefillOf(tokens);
  other_bundle.set_bundle_digest(std::string(tiny.bundle(1).digest().bytes()));
  const Received second = Fetch(*stub, other_bundle);
  ASSERT_TRUE(second.status.ok()) << second.status.error_message();
  EXPECT_EQ(second.header->num_stored_tokens(), 0u);
  EXPECT_EQ(second.header->bundle_digest(), other_bundle.bundle_digest());
  EXPECT_NE(second.codes, first.codes);
  EXPECT_TRUE(second.codes == ExpectedCodes(tiny.bundle(1), tiny.Plan(), tokens, 1));

  const Received other_codec = Fetch(*stub, PrefillOf(tokens, 1, Codec::kF32));
  EXPECT_EQ(other_codec.header->num_stored_tokens(), 0u);
  EXPECT_TRUE(other_codec.codes == ExpectedCodes(tiny.bundle(0), tiny.Plan(Codec::kF32), tokens, 1));
}

}  // namespace
}  // namespace scd
