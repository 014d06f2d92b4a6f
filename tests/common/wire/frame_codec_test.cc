#include "common/wire/frame_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <limits>
#include <string>

#include "common/io/digest.h"
#include "tests/common/wire/test_codes.h"

namespace scd {
namespace {

using ::testing::HasSubstr;
using testing::MakeCode;
using ::testing::StartsWith;

v1::CodeFrame Frame() {
  return ToFrames(MakeCode(3, CodeKind::kV, 17, 5, 7)).at(0);
}

// The checksum is made right again after a change, as a hostile peer would.
v1::CodeFrame Sealed(v1::CodeFrame frame) {
  frame.set_checksum(FrameChecksum(frame));
  return frame;
}

void ExpectRefused(v1::CodeFrame frame, absl::StatusCode code, const std::string& message) {
  const absl::Status status = FromFrame(std::move(frame)).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith("frame (layer "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

TEST(FrameCodecTest, ACodeComesBack) {
  for (const Codec codec : {Codec::kBF16, Codec::kF32}) {
    for (const CodeKind kind : {CodeKind::kK, CodeKind::kV, CodeKind::kH}) {
      const LayerCode sent = MakeCode(29, kind, 1000, 33, 6, codec);
      auto frames = ToFrames(sent);
      ASSERT_EQ(frames.size(), 1U);
      const auto received = FromFrame(std::move(frames[0]));
      ASSERT_TRUE(received.ok()) << received.status();
      EXPECT_EQ(received->layer, 29);
      EXPECT_EQ(received->kind, kind);
      EXPECT_EQ(received->first_token, 1000);
      EXPECT_EQ(received->num_tokens, 33);
      EXPECT_EQ(received->rank, 6);
      EXPECT_EQ(received->codec, codec);
      EXPECT_EQ(received->payload, sent.payload);
    }
  }
}

TEST(FrameCodecTest, LongCodesAreSplitByTokens) {
  const std::int64_t rank = 576;
  const std::int64_t tokens = 2000;  // 910 rows of bf16 fit into a frame
  const LayerCode sent = MakeCode(0, CodeKind::kH, 4, tokens, rank);
  auto frames = ToFrames(sent);
  ASSERT_EQ(frames.size(), 3U);
  std::string payload;
  std::int64_t next = 4;
  for (v1::CodeFrame& frame : frames) {
    EXPECT_LE(frame.payload().size(), static_cast<std::size_t>(kMaxFramePayloadBytes));
    const auto received = FromFrame(std::move(frame));
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_EQ(received->first_token, next);
    next += received->num_tokens;
    payload += received->payload;
  }
  EXPECT_EQ(next, 4 + tokens);
  EXPECT_EQ(payload, sent.payload);
}

TEST(FrameCodecTest, TheLargestRankStillFits) {
  auto frames = ToFrames(MakeCode(0, CodeKind::kH, 0, 10, kMaxCodeRank, Codec::kF32));
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_TRUE(FromFrame(std::move(frames[1])).ok());
}

// docs/formats.md: other programs must come to the same number.
TEST(FrameCodecTest, TheChecksumIsAsSpecified) {
  v1::CodeFrame frame;
  frame.set_layer(1);
  frame.set_kind(v1::CODE_KIND_K);
  frame.set_first_token(2);
  frame.set_num_tokens(3);
  frame.set_rank(1);
  frame.set_codec(v1::CODEC_BF16);
  frame.set_payload(std::string("\x00\x3f\x80\x3f\x00\x40", 6));
  const std::string header("\1\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\1\0\0\0\1\0\0\0", 24);
  const auto bytes = [](const std::string& s) {
    return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(s.data()), s.size());
  };
  EXPECT_EQ(FrameChecksum(frame), Checksum64(bytes(frame.payload()), Checksum64(bytes(header))));
}

TEST(FrameCodecTest, EveryFieldThatChangesOnTheWayIsSeen) {
  const v1::CodeFrame good = Frame();
  ASSERT_TRUE(FromFrame(v1::CodeFrame(good)).ok());
  const std::function<void(v1::CodeFrame&)> changes[] = {
      [](auto& f) { f.set_layer(f.layer() + 1); },
      [](auto& f) { f.set_kind(v1::CODE_KIND_K); },
      [](auto& f) { f.set_first_token(f.first_token() + 1); },
      [](auto& f) { f.set_num_tokens(7), f.set_rank(5); },  // the same number of bytes
      [](auto& f) { f.set_codec(v1::CODEC_F32); },
      [](auto& f) { f.mutable_payload()->back() ^= 1; },
      [](auto& f) { f.mutable_payload()->pop_back(); },
      [](auto& f) { f.mutable_payload()->clear(); },
      [](auto& f) { f.set_checksum(f.checksum() + 1); },
      [](auto& f) { f.clear_checksum(); },
  };
  for (const auto& change : changes) {
    v1::CodeFrame frame = good;
    change(frame);
    ExpectRefused(frame, absl::StatusCode::kDataLoss, "checksum: is not that of the frame's content");
  }
}

TEST(FrameCodecTest, EverySingleBitOfThePayloadIsCovered) {
  const v1::CodeFrame good = Frame();
  for (std::size_t bit = 0; bit < good.payload().size() * 8; ++bit) {
    v1::CodeFrame frame = good;
    (*frame.mutable_payload())[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    ExpectRefused(frame, absl::StatusCode::kDataLoss, "checksum");
  }
}

TEST(FrameCodecTest, FieldsWithARightChecksumAreStillChecked) {
  const v1::CodeFrame good = Frame();
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  const auto expect = [&](const std::function<void(v1::CodeFrame&)>& change, const std::string& message) {
    v1::CodeFrame frame = good;
    change(frame);
    ExpectRefused(Sealed(frame), kBad, message);
  };
  expect([](auto& f) { f.set_kind(v1::CODE_KIND_UNSPECIFIED); }, "kind: 0 is none that this program knows");
  expect([](auto& f) { f.set_kind(static_cast<v1::CodeKind>(6)); }, "kind: 6 is none");
  expect([](auto& f) { f.set_kind(static_cast<v1::CodeKind>(-1)); }, "kind: -1 is none");
  expect([](auto& f) { f.set_codec(v1::CODEC_UNSPECIFIED); }, "codec: 0 is none that this program knows");
  expect([](auto& f) { f.set_codec(static_cast<v1::Codec>(99)); }, "codec: 99 is none");
  expect([](auto& f) { f.set_codec(v1::CODEC_F32); },
         "payload: has 70 bytes, not what 5 tokens at rank 7 in f32 take");
  expect([](auto& f) { f.set_rank(0); }, "rank: 0 is outside [1, 29127]");
  expect([](auto& f) { f.set_rank(kMaxCodeRank + 1); }, "rank: 29128 is outside");
  expect([](auto& f) { f.set_rank(std::numeric_limits<std::uint32_t>::max()); },
         "rank: 4294967295 is outside");
  expect([](auto& f) { f.set_rank(8); }, "payload: has 70 bytes, not what 5 tokens at rank 8 in bf16 take");
  expect([](auto& f) { f.set_num_tokens(0); }, "num_tokens: 0 is outside [1, ");
  expect([](auto& f) { f.set_num_tokens(4); }, "payload: has 70 bytes, not what 4 tokens");
  expect([](auto& f) { f.set_num_tokens(0x7FFFFFFF - 17); },
         "payload: has 70 bytes, not what 2147483630 tokens");
  expect([](auto& f) { f.set_num_tokens(0xFFFFFFFF); }, "num_tokens: 4294967295 is outside");
  expect([](auto& f) { f.set_first_token(0xFFFFFFFF); },
         "first_token: 4294967295 is outside [0, 2147483647]");
  expect([](auto& f) { f.set_first_token(0x7FFFFFFF - 4); }, "num_tokens: 5 is outside [1, 4]");
  expect([](auto& f) { f.mutable_payload()->clear(); }, "payload: has 0 bytes");
  expect([](auto& f) { f.mutable_payload()->push_back('x'); }, "payload: has 71 bytes");
  expect([](auto& f) { f.mutable_payload()->resize(kMaxFramePayloadBytes + 1); },
         "payload: has 1048577 bytes, more than the 1048576 of a frame");
  // 2^18 tokens at rank 2^14: the product is 2^32, which a 32-bit count would take for zero.
  expect(
      [](auto& f) {
        f.set_num_tokens(1 << 18);
        f.set_rank(1 << 14);
        f.mutable_payload()->clear();
      },
      "payload: has 0 bytes, not what 262144 tokens at rank 16384");
  ExpectRefused(v1::CodeFrame(), absl::StatusCode::kDataLoss, "checksum");
  ExpectRefused(Sealed(v1::CodeFrame()), kBad, "kind: 0 is none");
}

TEST(FrameCodecTest, NumbersThatAreNotFiniteAreRefusedWhereverTheyStand) {
  for (const Codec codec : {Codec::kBF16, Codec::kF32}) {
    for (const float bad :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()}) {
      for (std::size_t at = 0; at < 15; ++at) {
        LayerCode code = MakeCode(0, CodeKind::kK, 0, 5, 3, codec);
        const auto bits = std::bit_cast<std::uint32_t>(bad);
        const std::size_t width = static_cast<std::size_t>(CodecBits(codec) / 8);
        std::memcpy(code.payload.data() + at * width,
                    reinterpret_cast<const char*>(&bits) + (sizeof(bits) - width), width);
        ExpectRefused(ToFrames(code).at(0), absl::StatusCode::kDataLoss,
                      "payload: holds a number that is not finite");
      }
    }
  }
}

TEST(FrameCodecTest, TheLargestNumbersAreStillFinite) {
  for (const Codec codec : {Codec::kBF16, Codec::kF32}) {
    LayerCode code = MakeCode(0, CodeKind::kK, 0, 3, 3, codec);
    for (std::size_t i = 0; i < code.payload.size(); ++i) code.payload[i] = '\xFF';
    for (std::size_t at = static_cast<std::size_t>(CodecBits(codec) / 8) - 2; at < code.payload.size();
         at += static_cast<std::size_t>(CodecBits(codec) / 8)) {
      code.payload[at] = '\x7F';  // exponent 254, mantissa all ones, negative
    }
    EXPECT_TRUE(FromFrame(std::move(ToFrames(code).at(0))).ok());
  }
}

TEST(FrameCodecTest, MessagesSayWhichFrame) {
  v1::CodeFrame frame = Frame();
  frame.set_rank(0);
  EXPECT_EQ(FromFrame(Sealed(frame)).status().message(),
            "frame (layer 3, kind 2, first token 17): rank: 0 is outside [1, 29127]");
}

}  // namespace
}  // namespace scd
