#include "consumer/code_check.h"

#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace scd {
namespace {

constexpr std::int64_t kTokens = 40;
constexpr std::int64_t kRank = 17;

// All zero but for one element.
LayerCode Code(Codec codec, std::int64_t index, float value) {
  LayerCode code;
  code.layer = 3;
  code.kind = CodeKind::kV;
  code.first_token = 100;
  code.num_tokens = kTokens;
  code.rank = kRank;
  code.codec = codec;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::size_t width = codec == Codec::kF32 ? 4 : 2;
  code.payload.assign(static_cast<std::size_t>(kTokens * kRank) * width, '\0');
  if (codec == Codec::kF32) {
    std::memcpy(code.payload.data() + static_cast<std::size_t>(index) * width, &bits, width);
  } else {
    const auto half = static_cast<std::uint16_t>(bits >> 16);
    std::memcpy(code.payload.data() + static_cast<std::size_t>(index) * width, &half, width);
  }
  return code;
}

class CodeCheckTest : public ::testing::TestWithParam<Codec> {};

TEST_P(CodeCheckTest, PlausibleNumbersPass) {
  for (const float value : {0.0f, -0.0f, 1.5f, -1e6f, 5e8f, -5e8f, 1e-40f}) {
    EXPECT_TRUE(CheckCodeNumbers(Code(GetParam(), 600, value)).ok()) << value;
  }
}

TEST_P(CodeCheckTest, OthersAreNamedByTokenAndColumn) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
                            kInfinity, -kInfinity, 2e9f, -3e38f}) {
    for (const std::int64_t index :
         {std::int64_t{0}, std::int64_t{255}, std::int64_t{256}, kTokens * kRank - 1}) {
      const absl::Status status = CheckCodeNumbers(Code(GetParam(), index, value));
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << value << " at " << index;
      const std::string where =
          "token " + std::to_string(100 + index / kRank) + " column " + std::to_string(index % kRank);
      EXPECT_NE(status.message().find(where), std::string::npos) << status;
      EXPECT_NE(status.message().find("layer 3 v"), std::string::npos) << status;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodeCheckTest, ::testing::Values(Codec::kBF16, Codec::kF32));

}  // namespace
}  // namespace scd
