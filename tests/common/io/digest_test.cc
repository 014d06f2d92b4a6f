#include "common/io/digest.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace scd {
namespace {

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (int v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

Digest Counting() {
  std::array<std::uint8_t, Digest::kBytes> bytes{};
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return Digest(bytes);
}

// Expected values were made with Python: struct.pack for the fed bytes, the xxhash package for the hash.
TEST(DigestBuilderTest, FeedsTheSpecifiedBytes) {
  DigestBuilder builder("scd.test.v1");
  builder.AddInt(-5).AddDouble(1.5).AddString("n\xc3\xa9").AddBytes(Bytes({0, 1, 2})).AddDigest(Counting());
  EXPECT_EQ(builder.Finish().ToHex(), "6f8e79265f8d5cda01de69f94b9cbb81");
  EXPECT_EQ(DigestBuilder("").Finish().ToHex(), "2c0a8a99dc147d5445c3b49d035665b2");
}

TEST(DigestBuilderTest, LengthsKeepNeighbouringFieldsApart) {
  EXPECT_NE(DigestBuilder("d").AddString("ab").AddString("c").Finish(),
            DigestBuilder("d").AddString("a").AddString("bc").Finish());
}

TEST(DigestBuilderTest, FinishLeavesTheBuilderUsable) {
  DigestBuilder builder("d");
  const Digest before = builder.Finish();
  EXPECT_EQ(builder.Finish(), before);
  builder.AddInt(1);
  EXPECT_EQ(builder.Finish(), DigestBuilder("d").AddInt(1).Finish());
  EXPECT_NE(builder.Finish(), before);
}

TEST(ChecksumTest, MatchesXxh3) {
  const auto abc = Bytes({'a', 'b', 'c'});
  EXPECT_EQ(Checksum64(abc), 0x78af5f94892f3950U);
  EXPECT_EQ(Checksum64(abc, 7), 0x48ff56f569e39912U);
}

TEST(DigestTest, HexGoesBothWays) {
  const Digest digest = Counting();
  EXPECT_EQ(digest.ToHex(), "000102030405060708090a0b0c0d0e0f");
  EXPECT_EQ(digest.ToShortHex(), "00010203");
  EXPECT_EQ(Digest::FromHex(digest.ToHex()).value(), digest);
  EXPECT_EQ(Digest::FromHex("000102030405060708090A0B0C0D0E0F").value(), digest);
  EXPECT_EQ(Digest::FromBytes(digest.bytes()).value(), digest);
  EXPECT_FALSE(digest.empty());
  EXPECT_TRUE(Digest().empty());
}

TEST(DigestTest, RefusesWhatIsNotADigest) {
  for (const char* bad : {"", "00", "000102030405060708090a0b0c0d0e0", "000102030405060708090a0b0c0d0e0g",
                          "000102030405060708090a0b0c0d0e0f0"}) {
    EXPECT_EQ(Digest::FromHex(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_FALSE(Digest::FromBytes("short").ok());
}

}  // namespace
}  // namespace scd
