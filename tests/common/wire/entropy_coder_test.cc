#include "common/wire/entropy_coder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/common/wire/entropy_samples.h"

namespace scd {
namespace {

using ::testing::HasSubstr;
using testing::LatentSource;
using testing::OwnedTables;

constexpr auto kSymbols = static_cast<std::size_t>(kEntropySymbols);

std::unique_ptr<EntropyCoder> CoderOf(const OwnedTables& tables) {
  auto coder = EntropyCoder::Create(tables.view());
  EXPECT_TRUE(coder.ok()) << coder.status();
  return *std::move(coder);
}

std::string Encoded(const EntropyCoder& coder, const std::vector<float>& rows) {
  const auto payload = coder.Encode(rows.data(), static_cast<std::int64_t>(rows.size()) / coder.rank());
  EXPECT_TRUE(payload.ok()) << payload.status();
  return payload.value_or("");
}

std::vector<float> Decoded(const EntropyCoder& coder, const std::string& payload, std::int64_t num_tokens,
                           std::int64_t begin, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count * coder.rank()), -1.0f);
  const absl::Status decoded = coder.Decode(payload, num_tokens, begin, count, out.data());
  EXPECT_TRUE(decoded.ok()) << decoded;
  return out;
}

// Every symbol, the escape too, with the same frequency.
OwnedTables EvenTables(const std::vector<float>& steps) {
  OwnedTables tables;
  for (const float step : steps) tables.Add(step, std::vector<std::int32_t>(kSymbols, step == 0.0f ? 0 : 32));
  return tables;
}

// Eight tokens of two sent columns and one that is not, as another program made them from the document alone.
TEST(EntropyCoderTest, WritesTheStoredExample) {
  OwnedTables tables;
  std::vector<std::int32_t> few(kSymbols, 0);
  few[62] = 1000;
  few[63] = 2000;
  few[64] = 1000;
  few[70] = 95;
  few[127] = 1;
  tables.Add(0.5f, few);
  tables.Add(0.0f, std::vector<std::int32_t>(kSymbols, 0));
  tables.Add(2.0f, std::vector<std::int32_t>(kSymbols, 32));
  const std::vector<float> first = {0, -1, 1, 7, 0, 100, -63, 1};
  const std::vector<float> last = {0, 63, -63, 64, -64, 0x1p30f, 5, -0x1p30f};
  std::vector<float> rows, rebuilt;
  for (std::size_t t = 0; t < first.size(); ++t) {
    rows.insert(rows.end(), {0.5f * first[t] + 0.2f, 3.0f, 2.0f * last[t] - 0.9f});
    rebuilt.insert(rebuilt.end(), {0.5f * first[t], 0.0f, 2.0f * last[t]});
  }
  constexpr char kExample[] =
      "\x28\x00\x00"
      "\x0a\x0a\x01\x00\x77\x52\x64\x10\x0f\x9d\x63\x10\xd4\x5f\x2d\x00"
      "\x08\xc4\xc0\xff\x00\x40\xe0\xff\x07\xff\xff\xff\xff\x08\x80\x80\x80\x80\x7f\x01\x80\x7d\x01\xc8";
  const std::string example(kExample, sizeof(kExample) - 1);
  const auto coder = CoderOf(tables);
  EXPECT_EQ(Encoded(*coder, rows), example);
  EXPECT_EQ(Decoded(*coder, example, 8, 0, 8), rebuilt);
}

TEST(EntropyCoderTest, WritesWhatThePlainCoderWritesAndRebuildsExactly) {
  for (const std::size_t rank : {1, 2, 37, 64, 384}) {
    LatentSource source(rank, 40.0, 0.3, 7);  // wide enough for escapes of both sorts
    const auto coder = CoderOf(source.tables());
    for (const std::int64_t tokens : {1, 2, 3, 31, 32, 33, 75}) {
      const std::vector<float> rows = source.Rows(tokens);
      const std::string payload = Encoded(*coder, rows);
      ASSERT_EQ(payload, testing::PlainPayload(source.tables(), rows)) << rank << " x " << tokens;
      ASSERT_EQ(Decoded(*coder, payload, tokens, 0, tokens), testing::PlainRebuilt(source.tables(), rows))
          << rank << " x " << tokens;
      EXPECT_LE(static_cast<std::int64_t>(payload.size()), LargestEntropyPayload(tokens, coder->rank()));
    }
  }
}

TEST(EntropyCoderTest, EveryFrequencyIsCodedRight) {
  // One symbol with frequency f, one with almost all of the rest, for every f: states take every size.
  for (std::int32_t f = 1; f < 4096; ++f) {
    std::vector<std::int32_t> row(kSymbols, 0);
    row[63] = f;
    row[65] = 4095 - f;
    row[127] = 1;
    OwnedTables tables;
    tables.Add(1.0f, row);
    tables.Add(1.0f, row);
    std::vector<float> rows;
    for (int i = 0; i < 150; ++i) rows.push_back((i * i + i / 7) % 4096 < f ? 0.0f : 2.0f);
    const auto coder = CoderOf(tables);
    const std::string payload = Encoded(*coder, rows);
    ASSERT_EQ(payload, testing::PlainPayload(tables, rows)) << f;
    ASSERT_EQ(Decoded(*coder, payload, 75, 0, 75), rows) << f;
  }
}

TEST(EntropyCoderTest, TakesNoMoreThanTwoPercentOverTheEntropy) {
  LatentSource source(384, 10.0, 0.3, 3);
  const double ideal_bytes = source.IdealBits() * 32 / 8;
  EXPECT_GT(ideal_bytes, 1900);
  EXPECT_LT(ideal_bytes, 2500);
  const auto coder = CoderOf(source.tables());
  const std::string payload = Encoded(*coder, source.Rows(64 * 32));
  EXPECT_LT(static_cast<double>(payload.size()) / 64, 1.02 * ideal_bytes);
  EXPECT_GT(static_cast<double>(payload.size()) / 64, ideal_bytes * 0.99);
}

TEST(EntropyCoderTest, ColumnsThatAreNotSentAreZero) {
  const OwnedTables tables = EvenTables({0.0f, 0.0f, 0.0f});
  const auto coder = CoderOf(tables);
  const std::string payload = Encoded(*coder, std::vector<float>(33 * 3, 5.0f));
  EXPECT_EQ(payload.size(), 2 * 19U);
  EXPECT_EQ(Decoded(*coder, payload, 33, 0, 33), std::vector<float>(33 * 3, 0.0f));
}

TEST(EntropyCoderTest, RoundsHalfToEven) {
  const auto coder = CoderOf(EvenTables({1.0f}));
  const std::vector<float> rows = {0.5f,   -0.5f, 1.5f,   -1.5f, 2.5f,        62.5f,
                                   -62.5f, 63.5f, -63.5f, 64.5f, 0.49999997f, 8388607.5f};
  const std::vector<float> rounded = {0, 0, 2, -2, 2, 62, -62, 64, -64, 64, 0, 8388608};
  EXPECT_EQ(Decoded(*coder, Encoded(*coder, rows), 12, 0, 12), rounded);
}

TEST(EntropyCoderTest, EscapesAreExact) {
  for (const float step : {1.0f, 0.37f, kSmallestEntropyStep, kLargestEntropyStep}) {
    OwnedTables tables;
    std::vector<std::int32_t> only_zero(kSymbols, 0);
    only_zero[63] = 4095;
    only_zero[127] = 1;
    std::vector<std::int32_t> only_escapes(kSymbols, 0);
    only_escapes[127] = 4096;
    tables.Add(step, only_zero);
    tables.Add(step, only_escapes);
    const auto coder = CoderOf(tables);
    std::vector<float> rows;
    for (const float q :
         {0.0f, 1.0f, 63.0f, 64.0f, 8191.0f, 8192.0f, 1e6f, 16777215.0f, 0x1.fffp29f, 0x1p30f}) {
      for (const float z : {q * step, -q * step, q * step, -q * step}) rows.push_back(z);
    }
    const std::string payload = Encoded(*coder, rows);
    EXPECT_EQ(payload, testing::PlainPayload(tables, rows));
    EXPECT_EQ(Decoded(*coder, payload, 20, 0, 20), testing::PlainRebuilt(tables, rows));
  }
}

TEST(EntropyCoderTest, TheLargestPayloadIsWithinItsBound) {
  std::vector<std::int32_t> row(kSymbols, 32);
  row[0] = 63;
  row[127] = 1;
  OwnedTables tables;
  for (int c = 0; c < 300; ++c) tables.Add(1.0f, row);
  const auto coder = CoderOf(tables);
  const std::string payload = Encoded(*coder, std::vector<float>(33 * 300, 0x1p30f));
  EXPECT_LE(static_cast<std::int64_t>(payload.size()), LargestEntropyPayload(33, 300));
  EXPECT_GT(static_cast<std::int64_t>(payload.size()), LargestEntropyPayload(33, 300) * 9 / 10);
}

TEST(EntropyCoderTest, NumbersWithoutCodeAreRefused) {
  const auto coder = CoderOf(EvenTables({0.5f, 0.0f, 2.0f}));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::max(), -0x1.000002p31f}) {
    for (std::size_t at = 0; at < 75 * 3; ++at) {
      std::vector<float> rows(75 * 3, 1.0f);
      rows[at] = bad;
      const bool is_finite_and_not_sent = std::isfinite(bad) && at % 3 == 1;
      const auto payload = coder->Encode(rows.data(), 75);
      if (is_finite_and_not_sent) {
        EXPECT_TRUE(payload.ok());
        continue;
      }
      ASSERT_EQ(payload.status().code(), absl::StatusCode::kOutOfRange) << bad << " at " << at;
      EXPECT_THAT(payload.status().message(), HasSubstr(at < 96    ? "tokens 0 to 31"
                                                        : at < 192 ? "tokens 32 to 63"
                                                                   : "tokens 64 to 74"));
    }
  }
}

TEST(EntropyCoderTest, AnyGranulesAreThatPieceOfTheWhole) {
  LatentSource source(37, 12.0, 0.4, 11);
  const auto coder = CoderOf(source.tables());
  const std::string payload = Encoded(*coder, source.Rows(75));
  const std::vector<float> whole = Decoded(*coder, payload, 75, 0, 75);
  for (const auto& [begin, count] : {std::pair{0, 32}, {0, 64}, {32, 32}, {32, 43}, {64, 11}}) {
    const std::vector<float> expected(whole.begin() + begin * 37, whole.begin() + (begin + count) * 37);
    EXPECT_EQ(Decoded(*coder, payload, 75, begin, count), expected) << begin;
  }
  // Granules stand alone: those of a payload are payloads.
  const auto granules = EntropyGranules(payload, 75);
  ASSERT_TRUE(granules.ok()) << granules.status();
  ASSERT_EQ(granules->size(), 4U);
  EXPECT_EQ(granules->front(), 0U);
  EXPECT_EQ(granules->back(), payload.size());
  const std::string second = payload.substr((*granules)[1], (*granules)[2] - (*granules)[1]);
  EXPECT_EQ(Decoded(*coder, second, 32, 0, 32),
            std::vector<float>(whole.begin() + 32 * 37, whole.begin() + 64 * 37));
}

TEST(EntropyCoderTest, FirstColumnsOfTheTablesAreTheTablesOfALowerRank) {
  LatentSource source(37, 12.0, 0.4, 12);
  const EntropyTables all = source.tables().view();
  const auto coder = EntropyCoder::Create({all.steps.first(10), all.frequencies.first(10 * kSymbols)});
  ASSERT_TRUE(coder.ok()) << coder.status();
  ASSERT_EQ((*coder)->rank(), 10);
  const std::vector<float> rows = source.Rows(5);
  std::vector<float> low;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i % 37 < 10) low.push_back(rows[i]);
  }
  const std::vector<float> rebuilt = testing::PlainRebuilt(source.tables(), rows);
  const std::vector<float> decoded = Decoded(**coder, Encoded(**coder, low), 5, 0, 5);
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    EXPECT_EQ(decoded[i], rebuilt[i / 10 * 37 + i % 10]);
  }
}

TEST(EntropyCoderTest, BadTablesAreRefused) {
  OwnedTables tables = EvenTables({1.0f, 1.0f});
  tables.frequencies[200] = 31;
  const auto coder = EntropyCoder::Create(tables.view());
  EXPECT_EQ(coder.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(coder.status().message(), HasSubstr("column 1"));
}

TEST(EntropyGranulesTest, LengthsHaveToAgreeWithThePayload) {
  LatentSource source(8, 5.0, 0.5, 2);
  const auto coder = CoderOf(source.tables());
  const std::string payload = Encoded(*coder, source.Rows(40));
  ASSERT_TRUE(EntropyGranules(payload, 33).ok());
  ASSERT_TRUE(EntropyGranules(payload, 64).ok());
  const auto expect_bad = [](const std::string& bytes, std::int64_t num_tokens, const char* what) {
    const auto granules = EntropyGranules(bytes, num_tokens);
    EXPECT_EQ(granules.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(granules.status().message(), HasSubstr(what));
  };
  expect_bad(payload, 32, "bytes follow its last granule");
  expect_bad(payload, 65, "ends before granule 2 of 3");
  expect_bad(payload, std::numeric_limits<std::int64_t>::max(), "ends before granule 2");
  expect_bad("", 1, "ends before granule 0 of 1");
  expect_bad(payload + "x", 40, "1 bytes follow");
  for (std::size_t size = 0; size < payload.size(); ++size) {
    EXPECT_FALSE(EntropyGranules(payload.substr(0, size), 40).ok());
  }
  std::string longer = payload;
  longer[2] = '\x7f';
  expect_bad(longer, 40, "are left");
  std::string shorter = payload;
  shorter[0] = '\x0f';
  shorter[1] = shorter[2] = '\0';
  expect_bad(shorter, 40, "granule 0 has 15 bytes");
}

}  // namespace
}  // namespace scd
