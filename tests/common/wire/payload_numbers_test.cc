#include "common/wire/payload_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "common/io/safetensors.h"
#include "common/wire/frame_codec.h"
#include "common/wire/payload_format.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

LayerCode CodeOf(Codec codec, CodeKind kind, const std::vector<float>& rows, std::int64_t rank) {
  const auto num_tokens = static_cast<std::int64_t>(rows.size()) / rank;
  return {.layer = 0,
          .kind = kind,
          .first_token = 5,
          .num_tokens = num_tokens,
          .rank = rank,
          .codec = codec,
          .payload = EncodeNumbers(codec, kind, rows.data(), num_tokens, rank)};
}

std::vector<float> Decoded(const LayerCode& code, std::int64_t begin, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count * code.rank));
  DecodeNumbers(code, begin, count, out.data());
  return out;
}

std::vector<float> WaveRows(std::int64_t num_tokens, std::int64_t rank) {
  std::vector<float> rows;
  for (std::int64_t i = 0; i < num_tokens * rank; ++i) {
    rows.push_back(std::sin(0.37f * static_cast<float>(i)) * static_cast<float>(1 + i % rank));
  }
  return rows;
}

// tests/data/wire/make_quantised.py made the bytes with numpy.
TEST(PayloadNumbersTest, IntegersAreWhatNumpyMakes) {
  const auto file = SafetensorsFile::Open(testing::TestDataPath("wire/quantised.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  for (const auto& [kind, prefix] : {std::pair{CodeKind::kK, std::string("k.")}, {CodeKind::kV, "v."}}) {
    const ConstTensorView rows = *(*file)->Get(prefix + "rows");
    for (const Codec codec : {Codec::kInt4, Codec::kInt8}) {
      const std::string name = prefix + std::string(CodecName(codec));
      const ConstTensorView payload = *(*file)->Get(name + ".payload");
      const ConstTensorView restored = *(*file)->Get(name + ".restored");
      const LayerCode code =
          CodeOf(codec, kind, {rows.as<float>(), rows.as<float>() + rows.num_elements()}, rows.dim(1));
      EXPECT_EQ(code.payload, std::string(static_cast<const char*>(payload.data()),
                                          static_cast<std::size_t>(payload.num_elements())))
          << name;
      const std::vector<float> decoded = Decoded(code, 0, code.num_tokens);
      for (std::int64_t i = 0; i < restored.num_elements(); ++i) {
        ASSERT_NEAR(decoded[static_cast<std::size_t>(i)], restored.as<float>()[i], 1e-5) << name << " " << i;
      }
    }
  }
}

TEST(PayloadNumbersTest, AnyPieceIsThatPieceOfTheWhole) {
  for (const Codec codec : {Codec::kBF16, Codec::kF32, Codec::kInt8, Codec::kInt4}) {
    for (const CodeKind kind : {CodeKind::kK, CodeKind::kV, CodeKind::kH, CodeKind::kResidual}) {
      const LayerCode code = CodeOf(codec, kind, WaveRows(75, 37), 37);
      ASSERT_EQ(code.payload.size(), static_cast<std::size_t>(PayloadBytes(codec, kind, 75, 37)));
      const std::vector<float> whole = Decoded(code, 0, 75);
      for (const auto& [begin, count] : {std::pair{0, 1}, {31, 2}, {40, 35}, {64, 11}, {74, 1}}) {
        const std::vector<float> expected(whole.begin() + begin * 37, whole.begin() + (begin + count) * 37);
        EXPECT_EQ(Decoded(code, begin, count), expected) << CodecName(codec) << " from " << begin;
      }
    }
  }
}

TEST(PayloadNumbersTest, GroupsFollowTheKind) {
  // One column is a thousand times the others. By column (K) the others keep their accuracy; by token (V)
  // they lose it.
  std::vector<float> rows = WaveRows(32, 32);
  for (std::int64_t t = 0; t < 32; ++t) rows[static_cast<std::size_t>(t * 32 + 7)] *= 1000;
  const auto error = [&](CodeKind kind) {
    const std::vector<float> decoded = Decoded(CodeOf(Codec::kInt8, kind, rows, 32), 0, 32);
    float worst = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i % 32 != 7) worst = std::max(worst, std::abs(decoded[i] - rows[i]));
    }
    return worst;
  };
  EXPECT_LT(error(CodeKind::kK), 0.2f);
  EXPECT_GT(error(CodeKind::kV), 5.0f);
}

TEST(PayloadNumbersTest, NumbersBeyondHalfPrecisionStayFinite) {
  const std::vector<float> rows = {1e9f, -1e9f, 0.0f, 3.0f};
  for (const Codec codec : {Codec::kInt8, Codec::kInt4}) {
    const LayerCode code = CodeOf(codec, CodeKind::kV, rows, 4);
    EXPECT_TRUE(CheckPayload(codec, CodeKind::kV, 1, 4, code.payload).ok());
    for (const float x : Decoded(code, 0, 1)) EXPECT_TRUE(std::isfinite(x));
  }
}

TEST(PayloadNumbersTest, FramesOfIntegersAreCutBetweenGranules) {
  const std::int64_t rank = 2000, tokens = 900;
  for (const Codec codec : {Codec::kInt8, Codec::kInt4}) {
    const LayerCode sent = CodeOf(codec, CodeKind::kK, WaveRows(tokens, rank), rank);
    const std::vector<float> whole = Decoded(sent, 0, tokens);
    auto frames = ToFrames(sent);
    ASSERT_GT(frames.size(), 1U);
    std::int64_t done = 0;
    for (v1::CodeFrame& frame : frames) {
      EXPECT_LE(frame.payload().size(), static_cast<std::size_t>(kMaxFramePayloadBytes));
      const auto code = FromFrame(std::move(frame));
      ASSERT_TRUE(code.ok()) << code.status();
      EXPECT_EQ(code->first_token, 5 + done);
      const std::vector<float> expected(whole.begin() + done * rank,
                                        whole.begin() + (done + code->num_tokens) * rank);
      ASSERT_EQ(Decoded(*code, 0, code->num_tokens), expected);
      done += code->num_tokens;
    }
    EXPECT_EQ(done, tokens);
  }
}

TEST(PayloadNumbersTest, ScalesAndMinimaThatAreNotFiniteAreRefused) {
  for (const Codec codec : {Codec::kInt8, Codec::kInt4}) {
    for (const CodeKind kind : {CodeKind::kK, CodeKind::kV}) {
      const LayerCode good = CodeOf(codec, kind, WaveRows(40, 3), 3);
      ASSERT_TRUE(CheckPayload(codec, kind, 40, 3, good.payload).ok());
      const std::int64_t headers = kind == CodeKind::kK ? 3 : 1;
      const std::int64_t last_granule =
          kind == CodeKind::kK ? PayloadBytes(codec, kind, 32, 3) : PayloadBytes(codec, kind, 39, 3);
      for (const std::int64_t granule : {std::int64_t{0}, last_granule}) {
        for (std::int64_t i = 0; i < 2 * headers; ++i) {
          std::string bad = good.payload;
          bad[static_cast<std::size_t>(granule + 2 * i)] = '\0';
          bad[static_cast<std::size_t>(granule + 2 * i + 1)] = '\x7C';  // infinity
          EXPECT_EQ(CheckPayload(codec, kind, 40, 3, bad).code(), absl::StatusCode::kDataLoss);
        }
      }
      EXPECT_EQ(CheckPayload(codec, kind, 39, 3, good.payload).code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(CheckPayload(codec, kind, std::int64_t{1} << 31, std::int64_t{1} << 31, good.payload).code(),
                absl::StatusCode::kInvalidArgument);
    }
  }
}

}  // namespace
}  // namespace scd
