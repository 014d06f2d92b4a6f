// A pass over a part of the layers against the same layers of a whole pass.
#include <stop_token>

#include "tests/common/model/forward_layers_rig.h"

namespace scd {
namespace {

using testing::ForwardLayersTest;
using ::testing::HasSubstr;
using testing::kMaxRows;
using testing::kNumTokens;
using testing::kUntouched;
using testing::RandomWeights;
using testing::ResidualTap;
using testing::Row;
using testing::Rows;
using testing::Subjects;

TEST_P(ForwardLayersTest, AnyGroupOfLayersInAnyChunkingIsThatOfAWholePass) {
  for (const std::int64_t chunk_rows : {kNumTokens, std::int64_t{7}, std::int64_t{1}}) {
    for (std::int64_t first = 0; first < config_.num_layers; ++first) {
      for (std::int64_t last = first; last < config_.num_layers; ++last) {
        SCOPED_TRACE(::testing::Message() << first << ".." << last << " in chunks of " << chunk_rows);
        const bool exactly = chunk_rows == kNumTokens;
        const auto sequence = NewSequence();
        const Rows out = Run(*sequence, first, last, entering_.entering[first], chunk_rows, true);
        ExpectKv(*sequence, first, last, exactly);
        if (last < last_layer()) {
          for (std::size_t p = 0; p < out.size(); ++p) {
            ExpectEqual(out[p], entering_.entering[last + 1][p], exactly);
          }
        }
        // Without the way out the same K and V.
        const auto ends_at_kv = NewSequence();
        Run(*ends_at_kv, first, last, entering_.entering[first], chunk_rows, false);
        ExpectKv(*ends_at_kv, first, last, exactly);
        EXPECT_EQ(sequence->valid_length(), 0);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(ForwardLayersTest, EverySplitOfTheLayersInTwoIsAWholePass) {
  for (std::int64_t split = 1; split < config_.num_layers; ++split) {
    SCOPED_TRACE(split);
    const auto sequence = NewSequence();
    const Rows middle = Run(*sequence, 0, split - 1, entering_.entering[0], 7, true);
    const Rows out = Run(*sequence, split, last_layer(), middle, 11, true);
    ExpectKv(*sequence, 0, last_layer(), false);
    for (std::size_t p = 0; p < out.size(); ++p) {
      const Row logits = Logits(out[p]);
      for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], logits_[p][i], 2e-5) << p;
    }
  }
}

TEST_P(ForwardLayersTest, RowsMayLieInAWiderMatrixAndLeaveInPlace) {
  const std::int64_t width = config_.hidden_size + 5;
  std::vector<float> wide(static_cast<std::size_t>(kNumTokens * width), kUntouched);
  for (std::int64_t i = 0; i < kNumTokens; ++i) {
    const Row& row = entering_.entering[1][static_cast<std::size_t>(i)];
    std::copy(row.begin(), row.end(), wide.begin() + i * width + 5);
  }
  const TensorView rows =
      TensorView(wide.data(), DType::kF32, {kNumTokens, width}).columns(5, config_.hidden_size);
  const auto sequence = NewSequence();
  const LayerChunk chunk{sequence.get(), rows, 0, 1, 1, rows};
  ASSERT_TRUE(transformer_->ForwardLayers(*workspace_, chunk).ok());
  for (std::int64_t i = 0; i < kNumTokens; ++i) {
    const auto row = wide.begin() + i * width;
    EXPECT_THAT(Row(row, row + 5), ::testing::Each(kUntouched));
    ExpectEqual(Row(row + 5, row + width), entering_.entering[2][static_cast<std::size_t>(i)], true);
  }
}

TEST_P(ForwardLayersTest, TapsNameTheModelsLayers) {
  ResidualTap tap;
  const std::vector<float> in = Flat(entering_.entering[1], 0, kNumTokens);
  const auto sequence = NewSequence();
  const LayerChunk chunk{sequence.get(), AsRows(in), 0, 1, last_layer(), {}};
  ASSERT_TRUE(transformer_->ForwardLayers(*workspace_, chunk, {.tap = &tap}).ok());
  std::vector<std::int64_t> expected;
  for (std::int64_t layer = 1; layer <= last_layer(); ++layer) {
    expected.push_back(layer);
    ASSERT_EQ(tap.entering[layer].size(), entering_.entering[layer].size());
    for (std::size_t p = 0; p < tap.entering[layer].size(); ++p) {
      ExpectEqual(tap.entering[layer][p], entering_.entering[layer][p], true);
    }
  }
  EXPECT_EQ(tap.order, expected);
  EXPECT_EQ(workspace_->logits().dim(0), 0);
}

TEST_P(ForwardLayersTest, CancellationAndATapsErrorEndThePass) {
  const std::vector<float> in = Flat(entering_.entering[0], 0, kNumTokens);
  const auto sequence = NewSequence();
  const LayerChunk chunk{sequence.get(), AsRows(in), 0, 0, last_layer(), {}};
  std::stop_source stop;
  ResidualTap tap;
  tap.after_layer = [&stop](std::int64_t layer) {
    if (layer == 1) stop.request_stop();
    return absl::OkStatus();
  };
  EXPECT_EQ(transformer_->ForwardLayers(*workspace_, chunk, {.tap = &tap, .cancel = stop.get_token()}).code(),
            absl::StatusCode::kCancelled);
  EXPECT_THAT(tap.order, ::testing::ElementsAre(0, 1));

  ResidualTap never;
  EXPECT_EQ(
      transformer_->ForwardLayers(*workspace_, chunk, {.tap = &never, .cancel = stop.get_token()}).code(),
      absl::StatusCode::kCancelled);
  EXPECT_TRUE(never.order.empty());

  ResidualTap failing;
  failing.after_layer = [](std::int64_t) { return absl::DataLossError("enough"); };
  EXPECT_EQ(transformer_->ForwardLayers(*workspace_, chunk, {.tap = &failing}),
            absl::DataLossError("enough"));
  EXPECT_THAT(failing.order, ::testing::ElementsAre(0));

  // The same sequence can still be computed.
  Run(*sequence, 0, last_layer(), entering_.entering[0], kNumTokens, false);
  ExpectKv(*sequence, 0, last_layer(), true);
}

TEST_P(ForwardLayersTest, RefusesWhatDoesNotFitBeforeItTouchesAnything) {
  const auto sequence = NewSequence();
  std::vector<float> in = Flat(entering_.entering[0], 0, 2);
  std::vector<float> out(in.size() + 8, kUntouched);
  std::vector<float> many(static_cast<std::size_t>((kMaxRows + 1) * config_.hidden_size));
  const std::int64_t hidden = config_.hidden_size;
  const TensorView rows(in.data(), DType::kF32, {2, hidden});
  const TensorView out_rows(out.data(), DType::kF32, {2, hidden});
  const LayerChunk good{sequence.get(), rows, 0, 0, last_layer(), out_rows};
  const auto expect = [&](const std::function<void(LayerChunk&)>& spoil, absl::StatusCode code,
                          const std::string& text) {
    LayerChunk chunk = good;
    spoil(chunk);
    const absl::Status status = transformer_->ForwardLayers(*workspace_, chunk);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  const auto view = [&](DType dtype, const Shape& shape) { return TensorView(in.data(), dtype, shape); };
  using enum absl::StatusCode;
  expect([](LayerChunk& c) { c.sequence = nullptr; }, kInvalidArgument, "no sequence");
  expect([](LayerChunk& c) { c.residual = {}; }, kInvalidArgument, "0 rows");
  expect([&](LayerChunk& c) { c.residual = view(DType::kF32, {2 * hidden}); }, kInvalidArgument, "0 rows");
  expect([&](LayerChunk& c) { c.residual = view(DType::kF32, {0, hidden}); }, kInvalidArgument, "0 rows");
  expect([&](LayerChunk& c) { c.residual = view(DType::kF32, {-1, hidden}); }, kInvalidArgument, "-1 rows");
  expect(
      [&](LayerChunk& c) {
        c.residual = view(DType::kF32, {2, hidden - 1});
      },
      kInvalidArgument, "residual");
  expect([&](LayerChunk& c) { c.residual = view(DType::kF16, {2, hidden}); }, kInvalidArgument, "residual");
  expect(
      [&](LayerChunk& c) {
        c.residual = ConstTensorView(nullptr, DType::kF32, {2, hidden});
      },
      kInvalidArgument, "residual");
  expect(
      [&](LayerChunk& c) {
        c.residual = TensorView(in.data(), DType::kF32, {2, hidden}, Device::kCuda);
      },
      kInvalidArgument, "another device");
  expect(
      [&](LayerChunk& c) {
        c.residual = TensorView(many.data(), DType::kF32, {kMaxRows + 1, hidden});
      },
      kInvalidArgument, "33 rows");
  expect([&](LayerChunk& c) { c.residual_out = out_rows.rows(0, 1); }, kInvalidArgument, "residual_out");
  expect(
      [&](LayerChunk& c) {
        c.residual_out = TensorView(out.data(), DType::kBF16, {2, hidden});
      },
      kInvalidArgument, "residual_out");
  expect([](LayerChunk& c) { c.first_layer = -1; }, kOutOfRange, "layers -1..");
  expect([](LayerChunk& c) { c.first_layer = c.last_layer + 1; }, kOutOfRange, "the model has");
  expect([](LayerChunk& c) { c.last_layer += 1; }, kOutOfRange, "the model has");
  expect([](LayerChunk& c) { c.first_layer = c.last_layer = std::int64_t{1} << 62; }, kOutOfRange, "layers");
  expect([](LayerChunk& c) { c.first_position = -1; }, kOutOfRange, "position -1");
  expect([](LayerChunk& c) { c.first_position = kNumTokens - 1; }, kOutOfRange, "the limit is 29");
  expect([](LayerChunk& c) { c.first_position = std::int64_t{1} << 62; }, kOutOfRange, "the limit is 29");

  ModelConfig other = config_;
  other.intermediate_size += 8;
  const auto foreign = *Transformer::Create(other, RandomWeights(other), *backend_);
  const auto foreign_workspace = *foreign->CreateWorkspace(4, 0);
  EXPECT_EQ(transformer_->ForwardLayers(*foreign_workspace, good).code(), kInvalidArgument);
  const auto foreign_cache = *PagedKvCache::Create(
      *backend_, {config_.num_layers + 1, config_.num_kv_heads, config_.head_dim, 8, DType::kF32}, 4);
  const auto foreign_sequence = *Sequence::Create(*foreign_cache, 8);
  expect([&](LayerChunk& c) { c.sequence = foreign_sequence.get(); }, kInvalidArgument, "another layout");

  EXPECT_THAT(out, ::testing::Each(kUntouched));
  ExpectKv(*sequence, 0, -1, true);
  EXPECT_TRUE(transformer_->ForwardLayers(*workspace_, good).ok());
}

INSTANTIATE_TEST_SUITE_P(Models, ForwardLayersTest,
                         ::testing::Combine(::testing::Values("reference", "cpu"),
                                            ::testing::ValuesIn(Subjects())),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace scd
