#include "common/store/block_record.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/common/store/block_samples.h"

namespace scd {
namespace {

using testing::Name;
using testing::NumberedBlock;
using testing::SameBlock;

// From memory that ends where the bytes do, so that a sanitizer sees a read behind them.
absl::StatusOr<std::shared_ptr<const CodeBlock>> Parse(const Digest& key, const std::string& bytes) {
  const std::shared_ptr<char[]> exact(new char[bytes.size()]);
  bytes.copy(exact.get(), bytes.size());
  return ParseBlock(key, {exact.get(), bytes.size()}, exact);
}

// The record with a digest that matches what stands in it.
std::string WithDigest(std::string record) {
  record.resize(record.size() - Digest::kBytes);
  return record + std::string(DigestBuilder("scd.code_block.v1").AddString(record).Finish().bytes());
}

TEST(BlockRecordTest, GivesBackWhatWasWritten) {
  for (std::uint64_t number = 0; number < 50; ++number) {
    const auto block = NumberedBlock(number, absl::FromUnixMillis(1700000000123 + number));
    const std::string record = SerializeBlock(Name("a"), *block);
    EXPECT_EQ(record.size(), BlockRecordBytes(*block));
    const auto parsed = Parse(Name("a"), record);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_TRUE(SameBlock(**parsed, *block));
  }
  const auto empty = MakeCodeBlock(1, {});
  const auto parsed = Parse(Name("a"), SerializeBlock(Name("a"), *empty));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE((*parsed)->payloads.empty());
}

// What stands in the format's specification: files and servers outlive programs.
TEST(BlockRecordTest, TheLayoutIsTheDocumentedOne) {
  const auto block = MakeCodeBlock(2, {"ab", "cde"}, absl::FromUnixMillis(0x0102030405));
  const std::string record = SerializeBlock(*Digest::FromHex("000102030405060708090a0b0c0d0e0f"), *block);
  std::string expected("SCDCODES\x01\0\0\0\x02\0\0\0", 16);
  for (char i = 0; i < 16; ++i) expected += i;
  expected += std::string("\x02\0\0\0\0\0\0\0\x05\x04\x03\x02\x01\0\0\0", 16);
  expected += std::string("\x02\0\0\0\x03\0\0\0", 8) + "abcde";
  EXPECT_EQ(record.substr(0, expected.size()), expected);
  EXPECT_EQ(record.size(), expected.size() + 16);
  EXPECT_EQ(WithDigest(record), record);
}

TEST(BlockRecordTest, AnotherKeyOrVersionIsForeign) {
  std::string record = SerializeBlock(Name("a"), *NumberedBlock(1));
  EXPECT_EQ(Parse(Name("b"), record).status().code(), absl::StatusCode::kFailedPrecondition);
  record[8] = 2;
  EXPECT_EQ(Parse(Name("a"), record).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Parse(Name("a"), WithDigest(record)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(BlockRecordTest, EveryFlippedBitIsFound) {
  const std::string record = SerializeBlock(Name("a"), *MakeCodeBlock(7, {"some", "codes", ""}));
  for (std::size_t bit = 0; bit < 8 * record.size(); ++bit) {
    std::string flipped = record;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(Parse(Name("a"), flipped).ok()) << bit;
  }
}

TEST(BlockRecordTest, EveryOtherLengthIsFound) {
  const std::string record = SerializeBlock(Name("a"), *NumberedBlock(3));
  for (std::size_t size = 0; size < record.size(); ++size) {
    EXPECT_EQ(Parse(Name("a"), record.substr(0, size)).status().code(), absl::StatusCode::kDataLoss) << size;
  }
  EXPECT_EQ(Parse(Name("a"), record + '\0').status().code(), absl::StatusCode::kDataLoss);
}

// Claims that a matching digest vouches for.
TEST(BlockRecordTest, FieldsAreCheckedBehindAGoodDigestToo) {
  const std::string record = SerializeBlock(Name("a"), *MakeCodeBlock(7, {"some", "codes"}));
  ASSERT_TRUE(Parse(Name("a"), WithDigest(record)).ok());
  struct Case {
    std::size_t place;
    std::string bytes;
  };
  const std::string huge = "\xFF\xFF\xFF\xFF";
  const std::string zero(4, '\0');
  for (const Case& c :
       {Case{12, huge}, Case{12, zero}, Case{12, {"\x03\0\0\0", 4}}, Case{12, {"\x01\0\0\0", 4}},
        Case{32, zero}, Case{32, huge}, Case{36, {"\x01\0\0\0", 4}}, Case{48, huge}, Case{48, zero},
        Case{52, huge}, Case{52, {"\x06\0\0\0", 4}}}) {
    std::string changed = record;
    changed.replace(c.place, 4, c.bytes);
    EXPECT_EQ(Parse(Name("a"), WithDigest(changed)).status().code(), absl::StatusCode::kDataLoss)
        << c.place << " " << static_cast<int>(c.bytes[0]);
  }
}

}  // namespace
}  // namespace scd
