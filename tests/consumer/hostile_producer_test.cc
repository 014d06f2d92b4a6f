// What a consumer makes of a producer that breaks its promises: by the policy an error or an honest native
// answer, soon, and nothing left behind.
#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/wire/frame_codec.h"
#include "gtest/gtest.h"
#include "tests/consumer/consumer_rig.h"

namespace scd::testing {
namespace {

constexpr std::size_t kPromptTokens = 60;
constexpr std::int64_t kTimeoutMs = 1000;

using Responses = std::vector<v1::PrefillResponse>;

// Header, 7 streams (K and V of three layers, H of one) with one frame each, trailer.
constexpr std::size_t kFirstFrame = 1;
constexpr std::size_t kNumFrames = 7;

void Resize(v1::PrefillResponse& response, const std::function<void(LayerCode&)>& change) {
  LayerCode code = *FromFrame(v1::CodeFrame(response.frame()));
  change(code);
  std::vector<v1::CodeFrame> frames = ToFrames(std::move(code));
  *response.mutable_frame() = std::move(frames.front());
}

void FillWith(v1::PrefillResponse& response, float value) {
  Resize(response, [value](LayerCode& code) {
    std::copy_n(reinterpret_cast<const char*>(&value), sizeof(value), code.payload.begin() + 40);
  });
}

struct Case {
  std::string name;
  std::string reason;
  grpc::StatusCode code;
  HostileProducer::Script script;
};

void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

// A script that changes the honest answer and sends what became of it.
HostileProducer::Script Changed(std::function<void(Responses&)> change) {
  return
      [change = std::move(change)](Responses honest, HostileProducer::Writer& writer, grpc::ServerContext&) {
        change(honest);
        return HostileProducer::SendAll(honest, writer);
      };
}

HostileProducer::Script SendsThen(std::size_t count, grpc::Status status) {
  return [count, status](Responses honest, HostileProducer::Writer& writer, grpc::ServerContext&) {
    honest.resize(count);
    HostileProducer::SendAll(honest, writer);
    return status;
  };
}

HostileProducer::Script HangsAfter(std::size_t count) {
  return [count](Responses honest, HostileProducer::Writer& writer, grpc::ServerContext& context) {
    honest.resize(count);
    HostileProducer::SendAll(honest, writer);
    return HostileProducer::Hang(context);
  };
}

std::vector<Case> AllCases() {
  constexpr auto kDataLoss = grpc::StatusCode::DATA_LOSS;
  constexpr auto kUnavailable = grpc::StatusCode::UNAVAILABLE;
  return {
      {"WrongChecksum", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { r[kFirstFrame].mutable_frame()->set_checksum(1); })},
      {"ChangedPayload", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { (*r[kFirstFrame + 2].mutable_frame()->mutable_payload())[17] ^= 1; })},
      {"ChangedLayer", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { r[kFirstFrame].mutable_frame()->set_layer(2); })},
      {"ShortPayload", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { r[kFirstFrame].mutable_frame()->mutable_payload()->pop_back(); })},
      {"MissingFrame", "incomplete", kUnavailable, Changed([](Responses& r) { r.erase(r.begin() + 3); })},
      {"RepeatedFrame", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { r.insert(r.begin() + 3, r[2]); })},
      {"RepeatedLater", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { r.insert(r.end() - 1, r[1]); })},
      {"BeyondTheRange", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { Resize(r[1], [](LayerCode& code) { code.first_token = 1 << 20; }); })},
      {"BeforeTheRange", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { Resize(r[1], [](LayerCode& code) { code.first_token = 0; }); })},
      {"UnknownLayer", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { Resize(r[1], [](LayerCode& code) { code.layer = 99; }); })},
      {"KindThatThePlanHasNot", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { Resize(r[1], [](LayerCode& code) { code.kind = CodeKind::kH; }); })},
      {"OtherRank", "corrupt_frame", kDataLoss, Changed([](Responses& r) {
         Resize(r[1], [](LayerCode& code) {
           code.rank /= 2;
           code.payload.resize(code.payload.size() / 2);
         });
       })},
      {"OtherCodec", "corrupt_frame", kDataLoss, Changed([](Responses& r) {
         Resize(r[1], [](LayerCode& code) {
           code.codec = Codec::kBF16;
           code.payload.resize(code.payload.size() / 2);
         });
       })},
      {"NaN", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { FillWith(r[4], std::numeric_limits<float>::quiet_NaN()); })},
      {"Infinity", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { FillWith(r[4], -std::numeric_limits<float>::infinity()); })},
      {"FiniteButHuge", "corrupt_frame", kDataLoss, Changed([](Responses& r) { FillWith(r[4], 3e38f); })},
      {"FrameOfTenMegabytes", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { r[2].mutable_frame()->set_payload(std::string(10 << 20, 'x')); })},
      {"FrameOverOneMebibyte", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { r[2].mutable_frame()->set_payload(std::string((1 << 20) + 4, 'x')); })},
      {"NoHeader", "bad_header", kDataLoss, Changed([](Responses& r) { r.erase(r.begin()); })},
      {"TwoHeaders", "bad_header", kDataLoss, Changed([](Responses& r) { r.insert(r.begin() + 2, r[0]); })},
      {"HeaderOfAnotherModel", "bad_header", kDataLoss,
       Changed([](Responses& r) { r[0].mutable_header()->set_model_digest("0123456789abcdef"); })},
      {"HeaderOfAnotherBundle", "bad_header", kDataLoss,
       Changed([](Responses& r) { r[0].mutable_header()->set_bundle_digest("0123456789abcdef"); })},
      {"HeaderOfAnotherPlan", "bad_header", kDataLoss, Changed([](Responses& r) {
         r[0].mutable_header()->mutable_plan()->mutable_layers(0)->set_rank_k(3);
       })},
      {"HeaderOfAnotherRange", "bad_header", kDataLoss,
       Changed([](Responses& r) { r[0].mutable_header()->set_end_token(100000); })},
      {"TrailerEarly", "incomplete", kUnavailable,
       Changed([](Responses& r) { std::swap(r[r.size() - 1], r[r.size() - 2]); })},
      {"TrailerAtOnce", "incomplete", kUnavailable,
       Changed([](Responses& r) { r.erase(r.begin() + 1, r.end() - 1); })},
      {"TrailerMiscounts", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { r.back().mutable_trailer()->set_num_frames(8); })},
      {"TrailerOfNoTime", "corrupt_frame", kDataLoss, Changed([](Responses& r) {
         r.back().mutable_trailer()->set_prefill_ms(std::numeric_limits<double>::quiet_NaN());
       })},
      {"TrailerFromTheFuture", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { r.back().mutable_trailer()->set_queue_ms(-1); })},
      {"TrailerOfMoreStoredTokens", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { r.back().mutable_trailer()->set_num_stored_tokens(1000); })},
      {"TrailerOfMorePrefilledTokens", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { r.back().mutable_trailer()->set_num_prefilled_tokens(1000); })},
      {"FrameAfterTrailer", "corrupt_frame", kDataLoss, Changed([](Responses& r) { r.push_back(r[1]); })},
      {"EmptyMessage", "corrupt_frame", kDataLoss,
       Changed([](Responses& r) { r.insert(r.begin() + 2, v1::PrefillResponse()); })},
      {"NoTrailer", "incomplete", kUnavailable, SendsThen(1 + kNumFrames, grpc::Status::OK)},
      {"NothingAtAll", "incomplete", kUnavailable, SendsThen(0, grpc::Status::OK)},
      {"EndsAfterTheHeader", "incomplete", kUnavailable, SendsThen(1, grpc::Status::OK)},
      {"DiesInTheMiddle", "producer_error", kUnavailable,
       SendsThen(4, {grpc::StatusCode::INTERNAL, "out of order"})},
      {"DiesWithTheTrailerSent", "producer_error", kUnavailable,
       SendsThen(2 + kNumFrames, {grpc::StatusCode::INTERNAL, "out of order"})},
      {"GoesAwayInTheMiddle", "producer_unavailable", kUnavailable,
       SendsThen(4, {grpc::StatusCode::UNAVAILABLE, "shutting down"})},
      {"QueueFull", "refused", grpc::StatusCode::RESOURCE_EXHAUSTED,
       SendsThen(0, {grpc::StatusCode::RESOURCE_EXHAUSTED, "queue full"})},
      {"RefusesThePlan", "refused", grpc::StatusCode::INVALID_ARGUMENT,
       SendsThen(0, {grpc::StatusCode::INVALID_ARGUMENT, "plan.rank_k: at most 8"})},
      {"HangsAtOnce", "deadline", kUnavailable, HangsAfter(0)},
      {"HangsAfterTheHeader", "deadline", kUnavailable, HangsAfter(1)},
      {"HangsInTheMiddle", "deadline", kUnavailable, HangsAfter(5)},
      {"HangsAfterTheTrailer", "deadline", kUnavailable, HangsAfter(2 + kNumFrames)},
      {"DripsForever", "deadline", kUnavailable,
       [](Responses honest, HostileProducer::Writer& writer, grpc::ServerContext& context) {
         writer.Write(honest[0]);
         for (std::size_t i = 1; i < 1 + kNumFrames; ++i) {
           std::this_thread::sleep_for(std::chrono::milliseconds(kTimeoutMs / 4));
           if (!writer.Write(honest[i])) break;
         }
         return HostileProducer::Hang(context);
       }},
      {"FloodsWithFrames", "corrupt_frame", kDataLoss,
       [](Responses honest, HostileProducer::Writer& writer, grpc::ServerContext&) {
         writer.Write(honest[0]);
         while (writer.Write(honest[1])) {
         }
         return grpc::Status::OK;
       }},
  };
}

class HostileProducerTest : public ::testing::TestWithParam<Case> {
 protected:
  HostileProducerTest() : rig_({.transfer_timeout_ms = kTimeoutMs}) {}

  ConsumerRig rig_;
};

TEST_P(HostileProducerTest, FailsByThePolicyAndLeavesNothingBehind) {
  const auto prompt = ConsumerRig::Prompt(kPromptTokens);
  const Answer local = rig_.Generate(ConsumerRig::Request(prompt, "local", v1::POLICY_OFF));
  ASSERT_TRUE(local.status.ok());
  const Answer honest = rig_.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_REQUIRE));
  ASSERT_TRUE(honest.status.ok()) << honest.status.error_message();

  rig_.hostile().SetScript(GetParam().script);
  // A neighbour decodes all the time and must not notice.
  const auto other_prompt = ConsumerRig::Prompt(kPromptTokens, 77);
  const v1::GenerateRequest other = ConsumerRig::Request(other_prompt, "local", v1::POLICY_OFF, 300);
  Answer neighbour;
  std::thread thread([&] { neighbour = rig_.Generate(other); });

  const Answer require = rig_.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_REQUIRE));
  EXPECT_EQ(require.status.error_code(), GetParam().code) << require.status.error_message();
  EXPECT_NE(require.status.error_message().find("(" + GetParam().reason + ")"), std::string::npos)
      << require.status.error_message();
  EXPECT_TRUE(require.ids.empty()) << "decoded from a failed transfer";
  EXPECT_LT(require.seconds, kTimeoutMs * 1e-3 + 1.0);

  const Answer prefer = rig_.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_PREFER));
  ASSERT_TRUE(prefer.status.ok()) << prefer.status.error_message();
  EXPECT_EQ(prefer.ids, local.ids);
  EXPECT_EQ(prefer.report().mode(), "local");
  EXPECT_EQ(prefer.report().reason(), GetParam().reason);
  EXPECT_FALSE(prefer.report().detail().empty());
  EXPECT_EQ(prefer.report().transferred_tokens(), 0u);
  EXPECT_EQ(prefer.report().computed_tokens(), kPromptTokens);
  EXPECT_LT(prefer.seconds, kTimeoutMs * 1e-3 + 1.0);

  thread.join();
  ASSERT_TRUE(neighbour.status.ok()) << neighbour.status.error_message();
  EXPECT_TRUE(rig_.BecomesIdle(0.5));
  EXPECT_EQ(rig_.consumer().Metric("scd_transfers_failed_total{reason=\"" + GetParam().reason + "\"}"), 2);
  EXPECT_EQ(rig_.consumer().Metric("scd_fallbacks_total{reason=\"" + GetParam().reason + "\"}"), 1);

  rig_.hostile().SetScript({});
  EXPECT_EQ(rig_.Generate(other).ids, neighbour.ids);
  const Answer after = rig_.Generate(ConsumerRig::Request(prompt, "scd", v1::POLICY_REQUIRE));
  ASSERT_TRUE(after.status.ok()) << after.status.error_message();
  EXPECT_EQ(after.ids, local.ids);
}

INSTANTIATE_TEST_SUITE_P(Scripts, HostileProducerTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace scd::testing
