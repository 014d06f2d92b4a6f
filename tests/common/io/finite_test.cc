#include "common/io/finite.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace scd {
namespace {

bool Finite(DType dtype, std::uint32_t bits) {
  switch (dtype) {
    case DType::kF32:
      return std::isfinite(std::bit_cast<float>(bits));
    case DType::kBF16:
      return std::isfinite(Bf16ToFloat(static_cast<std::uint16_t>(bits)));
    default:
      return std::isfinite(F16ToFloat(static_cast<std::uint16_t>(bits)));
  }
}

// Bytes of some numbers, starting at an odd address.
class OddBytes {
 public:
  OddBytes(DType dtype, std::size_t count) : width_(DTypeBytes(dtype)), bytes_(count * width_ + 1) {}
  void Set(std::size_t i, std::uint32_t bits) { std::memcpy(bytes_.data() + 1 + i * width_, &bits, width_); }
  absl::Span<const std::byte> span() const { return absl::MakeConstSpan(bytes_).subspan(1); }

 private:
  std::size_t width_;
  std::vector<std::byte> bytes_;
};

TEST(AllFiniteTest, EverySixteenBitPatternIsJudgedRight) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    OddBytes bytes(dtype, 1);
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      bytes.Set(0, bits);
      ASSERT_EQ(AllFinite(dtype, bytes.span()), Finite(dtype, bits)) << std::hex << bits;
    }
  }
}

TEST(AllFiniteTest, FullFloatsAreJudgedRight) {
  std::mt19937 random(1);
  OddBytes bytes(DType::kF32, 1);
  std::vector<std::uint32_t> patterns = {0,          0x80000000, 0x7F7FFFFF, 0xFF7FFFFF,
                                         0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF,
                                         0x7FFFFFFF, 0x00800000, 0x007FFFFF};
  for (int i = 0; i < 20000; ++i) {
    patterns.push_back(static_cast<std::uint32_t>(random()) | (i % 2 == 0 ? 0x7F000000u : 0u));
  }
  for (const std::uint32_t bits : patterns) {
    bytes.Set(0, bits);
    ASSERT_EQ(AllFinite(DType::kF32, bytes.span()), Finite(DType::kF32, bits)) << std::hex << bits;
  }
}

TEST(AllFiniteTest, OneBadNumberIsFoundWhereverItStands) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const std::uint32_t infinity = dtype == DType::kF32 ? 0x7F800000 : dtype == DType::kF16 ? 0x7C00 : 0x7F80;
    const std::uint32_t largest = infinity - 1;
    for (std::size_t count = 1; count < 20; ++count) {
      OddBytes bytes(dtype, count);
      for (std::size_t i = 0; i < count; ++i) bytes.Set(i, largest);
      EXPECT_TRUE(AllFinite(dtype, bytes.span()));
      for (std::size_t i = 0; i < count; ++i) {
        bytes.Set(i, infinity);
        EXPECT_FALSE(AllFinite(dtype, bytes.span())) << count << " numbers, at " << i;
        bytes.Set(i, largest);
      }
    }
    EXPECT_TRUE(AllFinite(dtype, {}));
  }
}

TEST(AllFiniteTest, BytesAfterTheLastNumberAreNotLookedAt) {
  const std::vector<std::byte> bytes(7, std::byte{0xFF});
  EXPECT_FALSE(AllFinite(DType::kF32, bytes));
  EXPECT_TRUE(AllFinite(DType::kF32, absl::MakeConstSpan(bytes).first(3)));
  EXPECT_TRUE(AllFinite(DType::kI8, bytes));
}

}  // namespace
}  // namespace scd
