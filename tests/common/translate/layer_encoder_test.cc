#include "common/translate/layer_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/config/model_config.h"
#include "common/model/rope.h"
#include "tests/common/translate/elsewhere_backend.h"
#include "tests/common/translate/expected.h"

namespace scd {
namespace {

using testing::ExpectNear;
using ::testing::HasSubstr;
using testing::kFirst;
using testing::kTokens;
using testing::Numbers;
using testing::Values;

constexpr std::int64_t kPositions = 16;

class LayerEncoderTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    backend_ = testing::TestBackend(GetParam());
    ASSERT_NE(backend_, nullptr);
    stream_ = *backend_->CreateStream();
    bundle_ = expected_.OpenBundle();
    ASSERT_NE(bundle_, nullptr);
    rope_ =
        *RopeTables::Create(*backend_, ComputeRopeFrequencies(RopeConfig(), testing::kHeadDim), kPositions);
  }

  std::unique_ptr<LayerEncoder> Make(const LayerPlan& plan) {
    auto encoder = LayerEncoder::Create(*bundle_, plan, rope_->table(), *backend_);
    EXPECT_TRUE(encoder.ok()) << encoder.status();
    return *std::move(encoder);
  }

  absl::StatusOr<LayerCode> Encode(const LayerEncoder& encoder, std::int64_t layer, CodeKind kind,
                                   const ConstTensorView& rows, std::int64_t max_tokens = kTokens) {
    auto workspace = *encoder.CreateWorkspace(max_tokens);
    return encoder.Encode(*workspace, *stream_, layer, kind, rows, kFirst);
  }

  ConstTensorView Rows(CodeKind kind) { return expected_.Get("rows." + std::string(CodeKindName(kind))); }

  const testing::Expected expected_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Bundle> bundle_;
  std::unique_ptr<RopeTables> rope_;
};

TEST_P(LayerEncoderTest, CodesAreWhatNumpyComputes) {
  for (const auto& [codec, name] : {std::pair{Codec::kF32, "f32"}, {Codec::kBF16, "bf16"}}) {
    for (const std::int64_t rank_h : {4, 9}) {
      const auto encoder = Make(testing::PlanFor(*bundle_, rank_h, codec));
      for (const auto& [layer, kind, rank] : {std::tuple{0, CodeKind::kK, testing::kRankK},
                                              {0, CodeKind::kV, testing::kRankV},
                                              {1, CodeKind::kH, rank_h}}) {
        const auto code = Encode(*encoder, layer, kind, Rows(kind));
        ASSERT_TRUE(code.ok()) << code.status();
        EXPECT_EQ(code->layer, layer);
        EXPECT_EQ(code->kind, kind);
        EXPECT_EQ(code->first_token, kFirst);
        EXPECT_EQ(code->num_tokens, kTokens);
        EXPECT_EQ(code->rank, rank);
        EXPECT_EQ(code->codec, codec);
        ASSERT_EQ(code->payload.size(), static_cast<std::size_t>(kTokens * rank * CodecBits(codec) / 8));
        const std::string key =
            std::string("codes.") + name + "." + std::string(CodeKindName(kind)) + "." + std::to_string(rank);
        // A sum on the border between two bf16 numbers may round either way: one part in 256.
        ExpectNear(Numbers(*code), Values(expected_.Get(key)), codec == Codec::kF32 ? 1e-5f : 1.0f / 256);
      }
    }
  }
}

TEST_P(LayerEncoderTest, LowerRanksAreTheFirstColumns) {
  const auto full =
      Make(*bundle_->ResolvePlan({.rank_k = 6, .rank_v = 8, .rank_h = 9, .codec = Codec::kF32}));
  const auto low = Make(*bundle_->ResolvePlan({.rank_k = 2, .rank_v = 1, .rank_h = 4, .codec = Codec::kF32}));
  for (const auto& [layer, kind] : {std::pair{0, CodeKind::kK}, {0, CodeKind::kV}, {1, CodeKind::kH}}) {
    const auto wide = Encode(*full, layer, kind, Rows(kind));
    const auto narrow = Encode(*low, layer, kind, Rows(kind));
    ASSERT_TRUE(wide.ok() && narrow.ok());
    ASSERT_LT(narrow->rank, wide->rank);
    const std::vector<float> all = Numbers(*wide), first = Numbers(*narrow);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t c = 0; c < narrow->rank; ++c) {
        EXPECT_NEAR(first[static_cast<std::size_t>(t * narrow->rank + c)],
                    all[static_cast<std::size_t>(t * wide->rank + c)], 1e-5);
      }
    }
  }
}

TEST_P(LayerEncoderTest, PiecesAreTheWhole) {
  const auto encoder = Make(testing::PlanFor(*bundle_, 9, Codec::kBF16));
  auto workspace = *encoder->CreateWorkspace(4);
  const ConstTensorView rows = Rows(CodeKind::kH);
  const auto whole = Encode(*encoder, 1, CodeKind::kH, rows);
  const auto head = encoder->Encode(*workspace, *stream_, 1, CodeKind::kH, rows.rows(0, 4), kFirst);
  const auto tail = encoder->Encode(*workspace, *stream_, 1, CodeKind::kH, rows.rows(4, 3), kFirst + 4);
  ASSERT_TRUE(whole.ok() && head.ok() && tail.ok());
  const auto pieces = Numbers(*head);
  auto joined = pieces;
  for (const float value : Numbers(*tail)) joined.push_back(value);
  ExpectNear(joined, Numbers(*whole), 1.0f / 256);
  EXPECT_EQ(tail->first_token, kFirst + 4);
}

TEST_P(LayerEncoderTest, RowsMayLieInAWiderMatrix) {
  const auto encoder = Make(testing::PlanFor(*bundle_, 9, Codec::kF32));
  const ConstTensorView rows = Rows(CodeKind::kK);
  testing::DeviceTensor wide(*backend_, Shape{kTokens, 20});
  for (std::int64_t t = 0; t < kTokens; ++t)
    std::copy_n(rows.row<float>(t), 8, wide.view().row<float>(t) + 7);
  const auto strided = Encode(*encoder, 0, CodeKind::kK, ConstTensorView(wide.view()).columns(7, 8));
  const auto packed = Encode(*encoder, 0, CodeKind::kK, rows);
  ASSERT_TRUE(strided.ok() && packed.ok()) << strided.status();
  ExpectNear(Numbers(*strided), Numbers(*packed), 1e-6f);
}

TEST_P(LayerEncoderTest, WhatThePlanDoesNotSendIsRefused) {
  const auto encoder = Make(testing::PlanFor(*bundle_, 9, Codec::kF32));
  const auto expect = [&](const absl::StatusOr<LayerCode>& code, const std::string& message) {
    EXPECT_EQ(code.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(code.status().message()), HasSubstr(message));
  };
  expect(Encode(*encoder, 0, CodeKind::kH, Rows(CodeKind::kH)), "the plan sends no h codes for layer 0");
  expect(Encode(*encoder, 1, CodeKind::kK, Rows(CodeKind::kK)), "the plan sends no k codes for layer 1");
  expect(Encode(*encoder, 2, CodeKind::kK, Rows(CodeKind::kK)), "the plan sends no k codes for layer 2");
  expect(Encode(*encoder, -1, CodeKind::kK, Rows(CodeKind::kK)), "the plan sends no k codes for layer -1");
  expect(Encode(*encoder, 0, CodeKind::kK, Rows(CodeKind::kH)),
         "rows have shape [7, 12] from position 3, expected [1 to 7, 8]");
  expect(Encode(*encoder, 0, CodeKind::kK, Rows(CodeKind::kK), kTokens - 1), "expected [1 to 6, 8]");
  expect(Encode(*encoder, 0, CodeKind::kK, Rows(CodeKind::kK).rows(0, 0)), "rows have shape [0, 8]");
  expect(Encode(*encoder, 0, CodeKind::kK, ConstTensorView()), "LayerEncoder: rows have shape");
  EXPECT_EQ(encoder->CreateWorkspace(0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(LayerEncoderTest, AnotherEncodersWorkspaceIsRefused) {
  const auto plan = testing::PlanFor(*bundle_, 9, Codec::kF32);
  const auto encoder = Make(plan);
  const auto other = Make(plan);
  auto workspace = *other->CreateWorkspace(kTokens);
  EXPECT_THAT(std::string(encoder->Encode(*workspace, *stream_, 0, CodeKind::kK, Rows(CodeKind::kK), kFirst)
                              .status()
                              .message()),
              HasSubstr("the workspace is another encoder's"));
}

TEST_P(LayerEncoderTest, APlanThatTheBundleHasNotIsRefused) {
  LayerPlan plan = testing::PlanFor(*bundle_, 9, Codec::kF32);
  plan.layers[0].rank_k = 7;
  EXPECT_EQ(LayerEncoder::Create(*bundle_, plan, rope_->table(), *backend_).status().message(),
            "plan.layers[0].rank_k: 7 is over this bundle's largest, 6");
}

TEST_P(LayerEncoderTest, TheBundleMayGoAway) {
  const auto encoder = Make(testing::PlanFor(*bundle_, 9, Codec::kF32));
  const auto before = Encode(*encoder, 1, CodeKind::kH, Rows(CodeKind::kH));
  bundle_.reset();
  const auto after = Encode(*encoder, 1, CodeKind::kH, Rows(CodeKind::kH));
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(before->payload, after->payload);
}

TEST_P(LayerEncoderTest, AsManyCodesMayBePendingAsTheWorkspaceSays) {
  const auto encoder = Make(testing::PlanFor(*bundle_, 9, Codec::kF32));
  auto workspace = *encoder->CreateWorkspace(kTokens);
  const bool on_host = backend_->device() == Device::kHost;
  ASSERT_EQ(workspace->max_pending(), on_host ? 1u : 8u);
  const ConstTensorView rows = Rows(CodeKind::kK);
  const auto begin = [&](std::int64_t token) {
    return encoder->Begin(*workspace, *stream_, 0, CodeKind::kK, rows.rows(token % kTokens, 1), token);
  };
  std::vector<std::unique_ptr<PendingCode>> pending;
  for (std::size_t i = 0; i < workspace->max_pending(); ++i) {
    auto code = begin(static_cast<std::int64_t>(i));
    ASSERT_TRUE(code.ok()) << code.status();
    pending.push_back(*std::move(code));
  }
  EXPECT_EQ(begin(0).status().code(), absl::StatusCode::kFailedPrecondition);
  // In any order, and each is its own.
  while (!pending.empty()) {
    const auto token = static_cast<std::int64_t>(pending.size()) - 1;
    EXPECT_TRUE(*pending.back()->Ready());
    const auto code = pending.back()->Finish();
    pending.pop_back();
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_EQ(code->first_token, token);
    EXPECT_EQ(code->payload, Encode(*encoder, 0, CodeKind::kK, rows.rows(token % kTokens, 1))->payload);
  }
  // One that nobody finished gives its place back too.
  for (std::size_t i = 0; i < 2 * workspace->max_pending(); ++i) EXPECT_TRUE(begin(0).ok());
}

INSTANTIATE_TEST_SUITE_P(Backends, LayerEncoderTest, ::testing::Values("reference", "cpu", "elsewhere"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace scd
