// Random damage to serialized frames, as a broken or hostile peer could send: with the old checksum nothing
// passes, with a right one what passes holds its promises.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "common/wire/frame_codec.h"
#include "common/wire/payload_format.h"
#include "common/wire/transfer_checker.h"
#include "tests/common/wire/test_codes.h"

namespace scd {
namespace {

class FrameFuzzTest : public ::testing::TestWithParam<bool> {};

TEST_P(FrameFuzzTest, DamageIsRefusedOrHarmless) {
  const bool sealed = GetParam();
  std::mt19937 random(sealed ? 1 : 2);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  const std::string good = ToFrames(testing::MakeCode(3, CodeKind::kV, 17, 5, 7)).at(0).SerializeAsString();
  LayerPlan plan;
  plan.layers.assign(8, LayerRanks{.treatment = LayerTreatment::kReuse, .rank_k = 7, .rank_v = 7});
  int num_parsed = 0, num_accepted = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string bytes = good;
    for (std::size_t edits = 1 + below(3); edits > 0 && !bytes.empty(); --edits) {
      const std::size_t at = below(bytes.size());
      switch (below(3)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes.erase(at, 1 + below(4));
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(below(256)));
      }
    }
    v1::CodeFrame frame;
    if (!frame.ParseFromString(bytes)) continue;
    ++num_parsed;
    if (sealed) frame.set_checksum(FrameChecksum(frame));
    const bool unchanged = frame.SerializeAsString() == good;
    const auto code = FromFrame(std::move(frame));
    if (!code.ok()) {
      EXPECT_FALSE(unchanged);
      continue;
    }
    ++num_accepted;
    EXPECT_GE(code->num_tokens, 1);
    EXPECT_GE(code->rank, 1);
    EXPECT_LE(code->first_token + code->num_tokens, std::int64_t{1} << 31);
    EXPECT_EQ(code->payload.size(),
              static_cast<std::size_t>(PayloadBytes(code->codec, code->kind, code->num_tokens, code->rank)));
    TransferChecker checker(plan, 17, 22);
    if (checker.Accept(*code).ok()) {
      EXPECT_LT(code->layer, 8);
      EXPECT_EQ(code->first_token, 17);
    }
    if (!sealed) {
      // Only damage that the parser itself undoes may pass: unknown fields, or bytes that repeat a field.
      EXPECT_EQ(code->layer, 3);
      EXPECT_EQ(code->kind, CodeKind::kV);
      EXPECT_EQ(code->payload, testing::MakeCode(3, CodeKind::kV, 17, 5, 7).payload);
    }
  }
  EXPECT_GT(num_parsed, 5000);
  EXPECT_GT(num_accepted, 0);
}

INSTANTIATE_TEST_SUITE_P(Checksum, FrameFuzzTest, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Right" : "Old"; });

}  // namespace
}  // namespace scd
