#include "producer/prefill_service.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/producer/service_rig.h"

namespace scd {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::Eventually;
using testing::ExpectedCodes;
using testing::Fetch;
using testing::Gate;
using ::testing::HasSubstr;
using testing::PrefillOf;
using testing::Received;
using testing::ServiceOptions;
using testing::ServiceRig;
using testing::SharedTinyProducer;
using testing::TestTokens;

TEST(PrefillServiceTest, StreamsHeaderFramesAndTrailer) {
  ServiceRig rig;
  const std::vector<std::int32_t> tokens = TestTokens(150);
  const Received received = Fetch(*rig.Stub(), PrefillOf(tokens));
  ASSERT_TRUE(received.status.ok()) << received.status.error_message();
  const testing::TinyProducer& tiny = SharedTinyProducer();
  EXPECT_EQ(received.header->model_digest(), std::string(tiny.model().digest.bytes()));
  EXPECT_EQ(received.header->bundle_digest(), std::string(tiny.bundle(0).digest().bytes()));
  EXPECT_EQ(received.header->first_token(), 1u);
  EXPECT_EQ(received.header->end_token(), 150u);
  EXPECT_EQ(received.header->num_stored_tokens(), 0u);
  EXPECT_TRUE(received.codes == ExpectedCodes(tiny.bundle(0), tiny.Plan(), tokens, 1));
  EXPECT_EQ(received.trailer->num_frames(), received.num_frames);
  EXPECT_EQ(received.trailer->payload_bytes(), received.payload_bytes);
  EXPECT_EQ(received.payload_bytes, static_cast<std::uint64_t>(149 * tiny.Plan().code_bytes_per_token()));
  EXPECT_GT(received.trailer->prefill_ms(), 0);
  EXPECT_GT(received.trailer->encode_ms(), 0);
  EXPECT_TRUE(Eventually([&] { return rig.Idle(); }));
}

TEST(PrefillServiceTest, TheFirstLayerArrivesBeforeHalfOfTheLayersRan) {
  ServiceRig rig;
  // Held before the attention of layer 1 of 4, in the first and only chunk.
  Gate gate(SharedTinyProducer().backend(), 1);
  const auto stub = rig.Stub();
  grpc::ClientContext context;
  const auto reader = stub->Prefill(&context, PrefillOf(TestTokens(60)));
  Received received;
  testing::StreamChecker checker(received);
  v1::PrefillResponse message;
  while (received.codes.size() < 2 && reader->Read(&message)) checker.Take(std::move(message));
  EXPECT_TRUE(received.codes.contains({0, CodeKind::kK}));
  EXPECT_TRUE(received.codes.contains({0, CodeKind::kV}));
  gate.WaitReached();
  EXPECT_EQ(gate.num_calls(), 2);
  gate.Open();
  while (reader->Read(&message)) checker.Take(std::move(message));
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(received.trailer.has_value());
}

TEST(PrefillServiceTest, ACancelledClientFreesEverythingInTheMiddleOfAPrefill) {
  ServiceRig rig;
  Gate gate(SharedTinyProducer().backend(), 5);
  const auto stub = rig.Stub();
  grpc::ClientContext context;
  const auto reader = stub->Prefill(&context, PrefillOf(TestTokens(500)));
  gate.WaitReached();
  EXPECT_GT(rig.engine().stats().pages_used, 0);
  context.TryCancel();
  EXPECT_TRUE(Eventually([&] {
    const std::vector<std::string> lines = rig.log().lines();
    return !lines.empty() && lines.back().find("status=cancelled") != std::string::npos;
  }));
  gate.Open();
  EXPECT_TRUE(Eventually([&] { return rig.Idle(); }));
  EXPECT_EQ(gate.num_calls(), 6);  // not one more layer
  v1::PrefillResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(rig.registry().Serialize(), HasSubstr("scd_transfers_failed_total{reason=\"cancelled\"} 1"));
}

TEST(PrefillServiceTest, ACancelledOrExpiredRequestLeavesTheQueueAtOnce) {
  ServiceOptions options;
  options.engine.kv_tokens = 512;
  ServiceRig rig(options);
  Gate gate(SharedTinyProducer().backend(), 0);
  const auto stub = rig.Stub();
  grpc::ClientContext running_context;
  const auto running = stub->Prefill(&running_context, PrefillOf(TestTokens(500)));
  gate.WaitReached();

  grpc::ClientContext cancelled_context;
  const auto cancelled = stub->Prefill(&cancelled_context, PrefillOf(TestTokens(500)));
  EXPECT_TRUE(Eventually([&] { return rig.engine().stats().num_queued == 1; }));
  cancelled_context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return rig.engine().stats().num_queued == 0; }));
  EXPECT_EQ(cancelled->Finish().error_code(), grpc::StatusCode::CANCELLED);

  grpc::ClientContext expired_context;
  expired_context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  const auto expired = stub->Prefill(&expired_context, PrefillOf(TestTokens(500)));
  EXPECT_EQ(expired->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Eventually([&] { return rig.engine().stats().num_queued == 0; }));
  EXPECT_TRUE(Eventually([&] { return rig.requests().num_in_flight() == 1; }));

  gate.Open();
  v1::PrefillResponse message;
  while (running->Read(&message)) {
  }
  EXPECT_TRUE(running->Finish().ok());
}

TEST(PrefillServiceTest, AFullQueueIsRefused) {
  ServiceOptions options;
  options.engine.kv_tokens = 512;
  options.engine.max_queued_requests = 1;
  ServiceRig rig(options);
  Gate gate(SharedTinyProducer().backend(), 0);
  const auto stub = rig.Stub();
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::PrefillResponse>>> readers;
  for (int i = 0; i < 2; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(stub->Prefill(contexts.back().get(), PrefillOf(TestTokens(500))));
    if (i == 0) gate.WaitReached();
  }
  EXPECT_TRUE(Eventually([&] { return rig.engine().stats().num_queued == 1; }));
  const Received refused = Fetch(*stub, PrefillOf(TestTokens(500)));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("queue is full"));
  EXPECT_FALSE(refused.header.has_value());
  gate.Open();
  v1::PrefillResponse message;
  for (const auto& reader : readers) {
    while (reader->Read(&message)) {
    }
    EXPECT_TRUE(reader->Finish().ok());
  }
}

// f32 codes of 511 tokens are some 200 KB, more than what the transport takes in by itself.
TEST(PrefillServiceTest, ASlowReaderSlowsOnlyItself) {
  ServiceOptions options;
  options.engine.chunk_tokens = 32;
  options.queue_frames = 4;
  options.store_bytes = 0;
  ServiceRig rig(options);
  const std::vector<std::int32_t> tokens = TestTokens(512);
  const auto slow_stub = v1::Producer::NewStub(testing::NarrowChannel(rig.port()));
  grpc::ClientContext context;
  const auto slow = slow_stub->Prefill(&context, PrefillOf(tokens, 1, Codec::kF32));
  v1::PrefillResponse message;
  ASSERT_TRUE(slow->Read(&message));
  Received received;
  testing::StreamChecker checker(received);
  checker.Take(message);

  const auto stub = rig.Stub();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Fetch(*stub, PrefillOf(TestTokens(100, 7))).status.ok());
  EXPECT_TRUE(Eventually([&] { return rig.requests().num_in_flight() == 1; }));
  const PrefillEngine::Stats stats = rig.engine().stats();
  EXPECT_EQ(stats.num_active, 1);
  EXPECT_GT(stats.pages_used, 0);

  while (slow->Read(&message)) checker.Take(std::move(message));
  EXPECT_TRUE(slow->Finish().ok());
  const testing::TinyProducer& tiny = SharedTinyProducer();
  EXPECT_TRUE(received.codes == ExpectedCodes(tiny.bundle(0), tiny.Plan(Codec::kF32), tokens, 1));
  EXPECT_TRUE(Eventually([&] { return rig.Idle(); }));
}

// The header is a frame of the queue too: whether the engine looks before or after it left, the prefill goes
// on.
TEST(PrefillServiceTest, AQueueOfOneFrameIsEnough) {
  ServiceOptions options;
  options.queue_frames = 1;
  options.store_bytes = 0;
  ServiceRig rig(options);
  const auto stub = rig.Stub();
  for (std::uint32_t i = 0; i < 200; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const auto reader = stub->Prefill(&context, PrefillOf(TestTokens(8, i)));
    v1::PrefillResponse message;
    while (reader->Read(&message)) {
    }
    ASSERT_TRUE(reader->Finish().ok()) << "request " << i;
    ASSERT_TRUE(message.has_trailer());
  }
}

TEST(PrefillServiceTest, AReaderThatStallsIsEnded) {
  ServiceOptions options;
  options.engine.chunk_tokens = 32;
  options.stall_timeout = absl::Milliseconds(200);
  options.queue_frames = 4;
  ServiceRig rig(options);
  const v1::PrefillRequest request = PrefillOf(TestTokens(512), 1, Codec::kF32);
  // In the middle of its prefill, then with codes from the store.
  for (std::size_t num_lines = 1; num_lines <= 3; ++num_lines) {
    const auto stub = v1::Producer::NewStub(testing::NarrowChannel(rig.port()));
    grpc::ClientContext context;
    const auto reader = stub->Prefill(&context, request);
    EXPECT_TRUE(Eventually([&] { return rig.log().lines().size() == num_lines && rig.Idle(); }));
    EXPECT_THAT(rig.log().lines().back(), AllOf(HasSubstr("status=resource_exhausted"),
                                                HasSubstr("the reader took nothing for 200ms")));
    v1::PrefillResponse message;
    while (reader->Read(&message)) {
    }
    EXPECT_FALSE(reader->Finish().ok());
    if (num_lines == 1) {
      ++num_lines;
      EXPECT_TRUE(Fetch(*rig.Stub(), request).status.ok());
      EXPECT_TRUE(Eventually([&] { return rig.log().lines().size() == num_lines && rig.Idle(); }));
    }
  }
}

TEST(PrefillServiceTest, StreamsAreBounded) {
  ServiceOptions options;
  options.max_streams = 1;
  ServiceRig rig(options);
  Gate gate(SharedTinyProducer().backend(), 0);
  const auto stub = rig.Stub();
  grpc::ClientContext context;
  const auto reader = stub->Prefill(&context, PrefillOf(TestTokens(50)));
  gate.WaitReached();
  const Received refused = Fetch(*stub, PrefillOf(TestTokens(50)));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("1 streams already"));
  gate.Open();
  v1::PrefillResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_TRUE(reader->Finish().ok());
}

TEST(PrefillServiceTest, BadRequestsAreRefusedAndHarmNobody) {
  ServiceRig rig;
  const auto stub = rig.Stub();
  v1::PrefillRequest wrong_bundle = PrefillOf(TestTokens(20));
  wrong_bundle.set_bundle_digest(std::string(16, 'x'));
  EXPECT_EQ(Fetch(*stub, wrong_bundle).status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  v1::PrefillRequest wrong_rank = PrefillOf(TestTokens(20));
  wrong_rank.mutable_plan()->mutable_layers(0)->set_rank_k(1000);
  const Received refused = Fetch(*stub, wrong_rank);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.status.error_message(), AllOf(HasSubstr("rank_k"), HasSubstr("16")));
  EXPECT_EQ(Fetch(*stub, v1::PrefillRequest()).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::PrefillRequest too_long = PrefillOf(TestTokens(513));
  EXPECT_EQ(Fetch(*stub, too_long).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::PrefillRequest endless_plan = PrefillOf(TestTokens(20));
  for (int i = 0; i < 500'000; ++i) endless_plan.mutable_plan()->add_layers();
  EXPECT_EQ(Fetch(*stub, endless_plan).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::PrefillRequest shouting = PrefillOf(TestTokens(20));
  shouting.set_request_id("x status=ok\nprefill id=forged");
  EXPECT_TRUE(Fetch(*stub, shouting).status.ok());
  std::string ignored;
  EXPECT_FALSE(testing::RawCall(testing::LoopbackChannel(rig.port()), "/scd.v1.Producer/Prefill",
                                "\xff\xff\xff", &ignored)
                   .ok());

  EXPECT_TRUE(Fetch(*stub, PrefillOf(TestTokens(20))).status.ok());
  EXPECT_TRUE(Eventually([&] { return rig.Idle() && rig.log().lines().size() == 7; }));
  for (const std::string& line : rig.log().lines()) EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_THAT(rig.log().lines(), Contains(HasSubstr("id=x\\x20status=ok\\x0aprefill\\x20id=forged ")));
  EXPECT_THAT(rig.registry().Serialize(),
              AllOf(HasSubstr("scd_transfers_failed_total{reason=\"failed_precondition\"} 1"),
                    HasSubstr("scd_transfers_failed_total{reason=\"invalid_argument\"} 4")));
}

TEST(PrefillServiceTest, ShutdownEndsStreamsWithUnavailable) {
  ServiceRig rig;
  Gate gate(SharedTinyProducer().backend(), 5);
  const auto stub = rig.Stub();
  grpc::ClientContext context;
  const auto reader = stub->Prefill(&context, PrefillOf(TestTokens(500)));
  gate.WaitReached();
  rig.service().CancelRequests();
  gate.Open();
  v1::PrefillResponse message;
  while (reader->Read(&message)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the producer is shutting down");
  EXPECT_TRUE(Eventually([&] { return rig.Idle(); }));
  EXPECT_EQ(Fetch(*stub, PrefillOf(TestTokens(20))).status.error_code(), grpc::StatusCode::UNAVAILABLE);
  rig.requests().StartDraining();
  EXPECT_EQ(Fetch(*stub, PrefillOf(TestTokens(20))).status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(PrefillServiceTest, InfoTellsTheStoreAndTheLoad) {
  ServiceRig rig;
  const auto stub = rig.Stub();
  ASSERT_TRUE(Fetch(*stub, PrefillOf(TestTokens(100))).status.ok());
  EXPECT_TRUE(Eventually([&] { return rig.Idle(); }));
  grpc::ClientContext context;
  v1::ProducerInfo info;
  ASSERT_TRUE(stub->Info(&context, {}, &info).ok());
  EXPECT_EQ(info.version(), "test");
  EXPECT_EQ(info.code_store_bytes(), static_cast<std::uint64_t>(rig.store().size_bytes()));
  EXPECT_EQ(info.code_store_capacity_bytes(), std::uint64_t{1} << 24);
  EXPECT_EQ(info.requests_in_flight(), 0u);
}

TEST(PrefillServiceTest, ManyClientsThatComeAndGo) {
  ServiceOptions options;
  options.engine.kv_tokens = 512;
  options.engine.chunk_tokens = 16;
  options.queue_frames = 2;
  options.store_bytes = 40000;  // a few prompts: blocks come and go
  ServiceRig rig(options);
  const testing::TinyProducer& tiny = SharedTinyProducer();
  std::vector<testing::CodesByColumn> expected;
  for (std::uint32_t i = 0; i < 4; ++i) {
    expected.push_back(ExpectedCodes(tiny.bundle(0), tiny.Plan(), TestTokens(60 + 10 * i, i), 1));
  }
  std::vector<std::jthread> clients;
  std::atomic<int> num_whole = 0;
  for (std::uint32_t client = 0; client < 6; ++client) {
    clients.emplace_back([&, client] {
      const auto stub = rig.Stub();
      for (std::uint32_t round = 0; round < 12; ++round) {
        const std::uint32_t which = (client + round) % 4;
        const v1::PrefillRequest request = PrefillOf(TestTokens(60 + 10 * which, which));
        if ((client + round) % 3 == 0) {
          grpc::ClientContext context;
          const auto reader = stub->Prefill(&context, request);
          v1::PrefillResponse message;
          for (std::uint32_t i = 0; i < round % 5; ++i) reader->Read(&message);
          context.TryCancel();
          reader->Finish();
        } else {
          const Received received = Fetch(*stub, request);
          EXPECT_TRUE(received.status.ok()) << received.status.error_message();
          EXPECT_TRUE(received.codes == expected[which]);
          ++num_whole;
        }
      }
    });
  }
  clients.clear();
  EXPECT_EQ(num_whole, 48);
  EXPECT_TRUE(Eventually([&] { return rig.Idle(); }));
  EXPECT_LE(rig.store().size_bytes(), 40000);
}

}  // namespace
}  // namespace scd
