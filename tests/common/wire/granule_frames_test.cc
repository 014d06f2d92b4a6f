// Payloads whose granules hold several tokens: entropy coded numbers, and codes of K and V together in any
// codec. Frames are cut between granules, and what comes from outside is looked at before it is believed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/config/entropy_tables.h"
#include "common/wire/entropy_coder.h"
#include "common/wire/frame_codec.h"
#include "common/wire/payload_format.h"
#include "common/wire/payload_numbers.h"

namespace scd {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kLengthBytes = 3;

std::unique_ptr<EntropyCoder> CoderOf(std::int64_t rank, float step = 0.25f) {
  const std::vector<float> steps(static_cast<std::size_t>(rank), step);
  std::vector<std::int64_t> counts;
  for (std::int64_t q = -kLargestSymbolValue; q <= kLargestSymbolValue; ++q) {
    counts.push_back(1000 / (1 + q * q));
  }
  counts.push_back(1);
  const std::vector<std::int32_t> column = FitFrequencies(counts);
  std::vector<std::int32_t> frequencies;
  for (std::int64_t c = 0; c < rank; ++c) {
    frequencies.insert(frequencies.end(), column.begin(), column.end());
  }
  auto coder = EntropyCoder::Create({.steps = steps, .frequencies = frequencies});
  EXPECT_TRUE(coder.ok()) << coder.status();
  return *std::move(coder);
}

std::vector<float> NormalRows(std::int64_t num_tokens, std::int64_t rank, float spread) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> rows(static_cast<std::size_t>(num_tokens * rank));
  for (float& x : rows) x = normal(random);
  return rows;
}

LayerCode CodeOf(Codec codec, CodeKind kind, const std::vector<float>& rows, std::int64_t rank) {
  const std::int64_t num_tokens = static_cast<std::int64_t>(rows.size()) / rank;
  std::string payload = codec == Codec::kEntropy ? *CoderOf(rank)->Encode(rows.data(), num_tokens)
                                                 : EncodeNumbers(codec, kind, rows.data(), num_tokens, rank);
  return {.layer = 2,
          .kind = kind,
          .first_token = 33,
          .num_tokens = num_tokens,
          .rank = rank,
          .codec = codec,
          .payload = std::move(payload)};
}

std::vector<float> NumbersOf(const LayerCode& code) {
  std::vector<float> numbers(static_cast<std::size_t>(code.num_tokens * code.rank));
  if (code.codec == Codec::kEntropy) {
    const absl::Status status =
        CoderOf(code.rank)->Decode(code.payload, code.num_tokens, 0, code.num_tokens, numbers.data());
    EXPECT_TRUE(status.ok()) << status;
  } else {
    DecodeNumbers(code, 0, code.num_tokens, numbers.data());
  }
  return numbers;
}

// The frames' codes, and their numbers after each other.
std::vector<LayerCode> Received(const LayerCode& sent, std::vector<float>* numbers) {
  std::vector<LayerCode> received;
  for (v1::CodeFrame& frame : ToFrames(sent)) {
    EXPECT_LE(frame.payload().size(), static_cast<std::size_t>(kMaxFramePayloadBytes));
    auto code = FromFrame(std::move(frame));
    EXPECT_TRUE(code.ok()) << code.status();
    if (!code.ok()) break;
    const std::vector<float> some = NumbersOf(*code);
    numbers->insert(numbers->end(), some.begin(), some.end());
    received.push_back(*std::move(code));
  }
  return received;
}

TEST(GranuleTest, CodesOfKAndVTogetherAndEntropyHaveGranulesOf32Tokens) {
  for (const CodeKind kind : {CodeKind::kK, CodeKind::kV, CodeKind::kH, CodeKind::kResidual, CodeKind::kKV}) {
    EXPECT_EQ(GranuleTokens(Codec::kEntropy, kind), 32);
    for (const Codec codec : {Codec::kBF16, Codec::kF32}) {
      EXPECT_EQ(GranuleTokens(codec, kind), kind == CodeKind::kKV ? 32 : 1);
      EXPECT_EQ(GroupTokens(codec, kind), 1);
    }
    for (const Codec codec : {Codec::kInt8, Codec::kInt4}) {
      EXPECT_EQ(GranuleTokens(codec, kind), kind == CodeKind::kK || kind == CodeKind::kKV ? 32 : 1);
      EXPECT_EQ(GroupTokens(codec, kind), kind == CodeKind::kK ? 32 : 1);
    }
  }
}

TEST(GranuleTest, IntegersOfKAndVTogetherAreGroupedByColumns) {
  // 3 tokens at rank 40: two groups of columns each, the numbers of a token side by side.
  const std::vector<float> rows = NormalRows(3, 40, 1);
  for (const auto& [codec, bytes] :
       {std::pair{Codec::kInt8, 3 * (40 + 2 * 4)}, {Codec::kInt4, 3 * (20 + 2 * 4)}}) {
    EXPECT_EQ(PayloadBytes(codec, CodeKind::kKV, 3, 40), bytes);
    const LayerCode fused = CodeOf(codec, CodeKind::kKV, rows, 40);
    EXPECT_EQ(fused.payload, CodeOf(codec, CodeKind::kV, rows, 40).payload);
    EXPECT_TRUE(CheckPayload(codec, CodeKind::kKV, 3, 40, fused.payload).ok());
  }
}

TEST(GranuleFramesTest, AreCutBetweenGranules) {
  for (const Codec codec : kAllCodecs) {
    for (const std::int64_t num_tokens : {1, 32, 33, 300}) {
      const std::int64_t rank = codec == Codec::kF32 ? 3000 : 4096;  // two granules of f32
      const LayerCode sent = CodeOf(codec, CodeKind::kKV, NormalRows(num_tokens, rank, 100), rank);
      std::vector<float> numbers;
      const std::vector<LayerCode> received = Received(sent, &numbers);
      EXPECT_EQ(numbers, NumbersOf(sent)) << CodecName(codec) << " " << num_tokens;
      std::int64_t next = 33;
      for (const LayerCode& code : received) {
        EXPECT_EQ(code.first_token, next);
        EXPECT_EQ((code.first_token - 33) % 32, 0) << CodecName(codec);
        next += code.num_tokens;
      }
      EXPECT_EQ(next, 33 + num_tokens);
      // As many granules as fit.
      for (std::size_t i = 0; i + 1 < received.size(); ++i) {
        const PayloadCuts cuts(sent);
        const std::int64_t begin = received[i].first_token - 33, end = begin + received[i].num_tokens;
        EXPECT_GT(cuts.BytesBefore(std::min(num_tokens, end + 32)) - cuts.BytesBefore(begin),
                  static_cast<std::size_t>(kMaxFramePayloadBytes));
      }
    }
  }
}

TEST(GranuleFramesTest, TheLargestGranulesFitIntoAFrame) {
  EXPECT_LE(LargestEntropyPayload(kEntropyGranule, kMaxEntropyRank), kMaxFramePayloadBytes);
  for (const Codec codec : {Codec::kBF16, Codec::kF32, Codec::kInt8, Codec::kInt4}) {
    EXPECT_LE(PayloadBytes(codec, CodeKind::kKV, kFusedGranule, 8192), kMaxFramePayloadBytes);
  }
  // Every number an escape.
  const LayerCode worst =
      CodeOf(Codec::kEntropy, CodeKind::kK, NormalRows(96, kMaxEntropyRank, 1e6f), kMaxEntropyRank);
  EXPECT_GT(worst.payload.size(), 96u * kMaxEntropyRank * 5);
  std::vector<float> numbers;
  EXPECT_EQ(Received(worst, &numbers).size(), 3u);
}

TEST(GranuleFramesTest, CutsAreWhereGranulesBegin) {
  const LayerCode code = CodeOf(Codec::kEntropy, CodeKind::kK, NormalRows(70, 5, 1), 5);
  const auto granules = EntropyGranules(code.payload, 70);
  ASSERT_TRUE(granules.ok()) << granules.status();
  ASSERT_EQ(granules->size(), 4u);
  const PayloadCuts cuts(code);
  EXPECT_EQ(cuts.BytesBefore(0), 0u);
  EXPECT_EQ(cuts.BytesBefore(32), (*granules)[1]);
  EXPECT_EQ(cuts.BytesBefore(64), (*granules)[2]);
  EXPECT_EQ(cuts.BytesBefore(70), code.payload.size());
  const LayerCode plain = CodeOf(Codec::kInt8, CodeKind::kK, NormalRows(70, 5, 1), 5);
  for (const std::int64_t tokens : {0, 32, 64, 70}) {
    EXPECT_EQ(PayloadCuts(plain).BytesBefore(tokens),
              static_cast<std::size_t>(PayloadBytes(Codec::kInt8, CodeKind::kK, tokens, 5)));
  }
}

v1::CodeFrame EntropyFrame() {
  return ToFrames(CodeOf(Codec::kEntropy, CodeKind::kKV, NormalRows(70, 5, 1), 5)).at(0);
}

TEST(GranuleFramesTest, LengthsThatDoNotAddUpAreRefused) {
  const auto expect = [](const std::function<void(v1::CodeFrame&)>& change, const std::string& message) {
    v1::CodeFrame frame = EntropyFrame();
    change(frame);
    frame.set_checksum(FrameChecksum(frame));
    const absl::Status status = FromFrame(std::move(frame)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  const auto granules = *EntropyGranules(EntropyFrame().payload(), 70);
  expect([](auto& f) { f.mutable_payload()->clear(); }, "payload: ends before granule 0 of 3");
  expect([](auto& f) { f.mutable_payload()->resize(2); }, "payload: ends before granule 0 of 3");
  expect([](auto& f) { f.mutable_payload()->pop_back(); }, "payload: granule 2 has ");
  expect([](auto& f) { f.mutable_payload()->push_back('x'); }, "payload: 1 bytes follow its last granule");
  expect([&](auto& f) { f.mutable_payload()->resize(granules[2]); }, "payload: ends before granule 2 of 3");
  expect([&](auto& f) { f.mutable_payload()->resize(granules[1] + kLengthBytes); },
         "payload: granule 1 has ");
  expect([](auto& f) { (*f.mutable_payload())[0] = 15; }, "payload: granule 0 has 15 bytes");
  expect([](auto& f) { f.mutable_payload()->replace(0, 3, 3, '\xFF'); },
         "payload: granule 0 has 16777215 bytes");
  expect([&](auto& f) { ++(*f.mutable_payload())[granules[1]]; }, "payload: granule ");
  expect([](auto& f) { f.set_num_tokens(64); }, " follow its last granule");
  expect([](auto& f) { f.set_num_tokens(97); }, "payload: ends before granule 3 of 4");
  expect([](auto& f) { f.set_num_tokens(0x7FFFFFFF - 33); }, "payload: ends before granule 3 of 67108863");
  // More bytes than 70 numbers can take, in granules that say so.
  expect(
      [](auto& f) {
        f.set_rank(1);
        const std::string granule = std::string("\x00\x04\x00", 3) + std::string(1024, 'x');
        f.set_payload(granule + granule + granule);
      },
      "payload: has 3081 bytes, more than 70 tokens at rank 1 can take");
}

// With a right checksum, as a hostile peer would send: refused, or decoded to numbers on the grid, or to an
// error, and never read beyond.
TEST(GranuleFramesTest, DamageIsRefusedOrHarmless) {
  std::mt19937 random(11);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  const std::string good = EntropyFrame().SerializeAsString();
  const auto coder = CoderOf(5);
  int num_accepted = 0, num_decoded = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const std::size_t at = below(bytes.size());
      switch (below(4)) {
        case 0:
        case 1:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 2:
          bytes.erase(at, 1 + below(4));
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(below(256)));
      }
    }
    v1::CodeFrame frame;
    if (!frame.ParseFromString(bytes)) continue;
    frame.set_checksum(FrameChecksum(frame));
    const auto code = FromFrame(std::move(frame));
    if (!code.ok() || code->codec != Codec::kEntropy) continue;
    ++num_accepted;
    EXPECT_LE(code->num_tokens, 32 * static_cast<std::int64_t>(code->payload.size()));
    if (code->rank != 5) continue;
    std::vector<float> numbers(static_cast<std::size_t>(code->num_tokens * 5));
    if (!coder->Decode(code->payload, code->num_tokens, 0, code->num_tokens, numbers.data()).ok()) continue;
    ++num_decoded;
    for (const float x : numbers) {
      EXPECT_TRUE(std::isfinite(x) && x / 0.25f == std::round(x / 0.25f)) << x;
    }
  }
  EXPECT_GT(num_accepted, 1000);
  EXPECT_GT(num_decoded, 0);
}

}  // namespace
}  // namespace scd
