// A producer that sends entropy coded payloads which no encoder wrote, with right checksums: by the policy an
// error or an honest native answer, and nothing left behind.
#include <cstdint>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "common/wire/frame_codec.h"
#include "gtest/gtest.h"
#include "tests/consumer/consumer_rig.h"

namespace scd::testing {
namespace {

constexpr std::uint32_t kPromptTokens = 100;

using Payload = std::string;

struct Case {
  std::string name;
  std::function<void(Payload&)> change;
};

void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

// Lengths (3 bytes each), states (16) and words of the first granule.
const Case kCases[] = {
    {"Empty", [](Payload& p) { p.clear(); }},
    {"Short", [](Payload& p) { p.pop_back(); }},
    {"Long", [](Payload& p) { p.push_back('x'); }},
    {"LengthBeyondTheEnd", [](Payload& p) { p[1] = '\x7F'; }},
    {"LengthOfNothing", [](Payload& p) { p[0] = p[1] = p[2] = 0; }},
    {"OtherState", [](Payload& p) { p[5] = static_cast<char>(p[5] ^ 0x10); }},
    {"StatesOfOnes", [](Payload& p) { p.replace(3, 16, 16, '\xFF'); }},
    {"StatesOfZeros", [](Payload& p) { p.replace(3, 16, 16, '\0'); }},
    {"Garbage",
     [](Payload& p) {
       std::mt19937 random(3);
       for (std::size_t i = 3; i < 60; ++i) p[i] = static_cast<char>(random());
     }},
    {"EscapesOnly", [](Payload& p) { p.replace(19, 40, 40, '\xFF'); }},
};

class HostileEntropyTest : public ::testing::TestWithParam<Case> {
 protected:
  HostileEntropyTest() : rig_({.code_store_block_tokens = 32}) {}

  Answer Ask(const std::string& mode, v1::Policy policy) {
    v1::GenerateRequest request = ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), mode, policy);
    if (mode != "local") request.mutable_transfer()->mutable_plan()->set_codec(v1::CODEC_ENTROPY);
    return rig_.Generate(request);
  }

  ConsumerRig rig_;
};

TEST_P(HostileEntropyTest, FailsByThePolicyAndLeavesNothingBehind) {
  const Answer local = Ask("local", v1::POLICY_OFF);
  ASSERT_TRUE(local.status.ok()) << local.status.error_message();
  for (const std::string mode : {"fused", "scd", "reuse"}) {
    SCOPED_TRACE(mode);
    rig_.hostile().SetScript({});
    const Answer honest = Ask(mode, v1::POLICY_REQUIRE);
    ASSERT_TRUE(honest.status.ok()) << honest.status.error_message();

    rig_.hostile().SetScript([](std::vector<v1::PrefillResponse> honest_answer,
                                HostileProducer::Writer& writer, grpc::ServerContext&) {
      v1::CodeFrame& frame = *honest_answer[3].mutable_frame();
      GetParam().change(*frame.mutable_payload());
      frame.set_checksum(FrameChecksum(frame));
      return HostileProducer::SendAll(honest_answer, writer);
    });
    const Answer require = Ask(mode, v1::POLICY_REQUIRE);
    EXPECT_EQ(require.status.error_code(), grpc::StatusCode::DATA_LOSS) << require.status.error_message();
    EXPECT_NE(require.status.error_message().find("(corrupt_frame)"), std::string::npos)
        << require.status.error_message();
    EXPECT_TRUE(require.ids.empty()) << "decoded from a failed transfer";

    const Answer prefer = Ask(mode, v1::POLICY_PREFER);
    ASSERT_TRUE(prefer.status.ok()) << prefer.status.error_message();
    EXPECT_EQ(prefer.ids, local.ids);
    EXPECT_EQ(prefer.report().mode(), "local");
    EXPECT_EQ(prefer.report().reason(), "corrupt_frame");
    EXPECT_TRUE(rig_.BecomesIdle(1));
  }
}

INSTANTIATE_TEST_SUITE_P(Payloads, HostileEntropyTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

// Bytes that are wrong in any place: refused, or decoded to other numbers, and always an end.
TEST(HostileEntropyBytesTest, AnyByteMayBeWrong) {
  ConsumerRig rig({.code_store_block_tokens = 32});
  std::mt19937 random(17);
  int num_refused = 0;
  for (int round = 0; round < 60; ++round) {
    const std::uint32_t place = random(), value = random();
    rig.hostile().SetScript([place, value](std::vector<v1::PrefillResponse> honest_answer,
                                           HostileProducer::Writer& writer, grpc::ServerContext&) {
      v1::CodeFrame& frame = *honest_answer[1 + place % (honest_answer.size() - 2)].mutable_frame();
      Payload& payload = *frame.mutable_payload();
      payload[(place >> 8) % payload.size()] = static_cast<char>(value);
      frame.set_checksum(FrameChecksum(frame));
      return HostileProducer::SendAll(honest_answer, writer);
    });
    v1::GenerateRequest request =
        ConsumerRig::Request(ConsumerRig::Prompt(kPromptTokens), "fused", v1::POLICY_REQUIRE, 2);
    request.mutable_transfer()->mutable_plan()->set_codec(v1::CODEC_ENTROPY);
    const Answer answer = rig.Generate(request);
    if (answer.status.ok()) continue;
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DATA_LOSS) << answer.status.error_message();
    ++num_refused;
  }
  EXPECT_GT(num_refused, 10);
  EXPECT_TRUE(rig.BecomesIdle(1));
}

}  // namespace
}  // namespace scd::testing
