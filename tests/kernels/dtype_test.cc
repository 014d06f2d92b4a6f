#include "kernels/dtype.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace scd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(DTypeTest, SizesAndNames) {
  EXPECT_EQ(DTypeBytes(DType::kF32), 4u);
  EXPECT_EQ(DTypeBytes(DType::kF16), 2u);
  EXPECT_EQ(DTypeBytes(DType::kBF16), 2u);
  EXPECT_EQ(DTypeBytes(DType::kI32), 4u);
  EXPECT_EQ(DTypeBytes(DType::kI8), 1u);
  EXPECT_EQ(DTypeBytes(DType::kU8), 1u);
  EXPECT_EQ(DTypeName(DType::kF32), "f32");
  EXPECT_EQ(DTypeName(DType::kBF16), "bf16");
}

TEST(DTypeTest, KnownF16Values) {
  EXPECT_EQ(F16ToFloat(0x3c00), 1.0f);
  EXPECT_EQ(F16ToFloat(0xc000), -2.0f);
  EXPECT_EQ(F16ToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(F16ToFloat(0x0400), 0x1p-14f);
  EXPECT_EQ(F16ToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(F16ToFloat(0x83ff), -1023 * 0x1p-24f);
  EXPECT_EQ(F16ToFloat(0x7c00), kInfinity);
  EXPECT_EQ(F16ToFloat(0xfc00), -kInfinity);
  EXPECT_TRUE(std::isnan(F16ToFloat(0x7e00)));
  EXPECT_TRUE(std::signbit(F16ToFloat(0x8000)));
}

TEST(DTypeTest, EveryF16SurvivesTheWayThere) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = F16ToFloat(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(value)))) << bits;
    } else {
      EXPECT_EQ(FloatToF16(value), bits);
    }
  }
}

// For finite neighbours a < b: what lies below the middle goes to a, above it to b, the middle to the even
// one.
TEST(DTypeTest, F16RoundsToNearestTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = F16ToFloat(static_cast<std::uint16_t>(bits));
    const float high = F16ToFloat(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    EXPECT_EQ(FloatToF16(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(FloatToF16(std::nextafter(middle, 0.0f)), bits);
    EXPECT_EQ(FloatToF16(std::nextafter(middle, kInfinity)), bits + 1);
    EXPECT_EQ(FloatToF16(-std::nextafter(middle, kInfinity)), 0x8000u | (bits + 1));
  }
}

TEST(DTypeTest, F16OverflowsToInfinity) {
  EXPECT_EQ(FloatToF16(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToF16(-1e30f), 0xfc00);
  EXPECT_EQ(FloatToF16(kInfinity), 0x7c00);
  EXPECT_EQ(FloatToF16(1e-30f), 0);
}

TEST(DTypeTest, EveryBf16SurvivesTheWayThere) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = Bf16ToFloat(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(value)))) << bits;
    } else {
      EXPECT_EQ(FloatToBf16(value), bits);
    }
  }
}

TEST(DTypeTest, Bf16RoundsToNearestTiesToEven) {
  EXPECT_EQ(FloatToBf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(FloatToBf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(FloatToBf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(FloatToBf16(std::bit_cast<float>(0x3f80ffffu)), 0x3f81);
  EXPECT_EQ(FloatToBf16(std::numeric_limits<float>::max()), 0x7f80);
  // A NaN whose upper half alone would read as infinity.
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace scd
