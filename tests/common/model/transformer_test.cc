#include "common/model/transformer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "tests/common/model/plain_transformer.h"
#include "tests/support/random_weights.h"

namespace scd {
namespace {

using ::testing::HasSubstr;
using testing::RandomWeights;
using testing::RunPlainTransformer;
using testing::SmallConfig;

constexpr std::int64_t kMaxRows = 40;

std::vector<std::int32_t> SomeTokens(std::int64_t count, std::int32_t salt = 0) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < count; ++i) tokens.push_back((i * 17 + salt * 5 + 3) % 50);
  return tokens;
}

// A model on a backend, with pages for some sequences.
struct Rig {
  static Rig Make(const std::string& device, const ModelConfig& config) {
    Rig rig;
    rig.backend = *CreateBackend({.device = device, .num_threads = 2, .math = MathMode::kF32});
    rig.transformer = *Transformer::Create(config, RandomWeights(config), *rig.backend);
    rig.workspace = *rig.transformer->CreateWorkspace(kMaxRows, kMaxRows);
    rig.cache = *PagedKvCache::Create(
        *rig.backend, {config.num_layers, config.num_kv_heads, config.head_dim, 8, DType::kF32}, 40);
    return rig;
  }

  std::unique_ptr<Sequence> NewSequence(std::int64_t max_tokens = 40) {
    return *Sequence::Create(*cache, max_tokens);
  }

  absl::Status Run(const std::vector<ForwardChunk>& chunks, const ForwardOptions& options = {}) {
    return transformer->Forward(*workspace, chunks, options);
  }

  // Logits of every position, computed in chunks of that many tokens.
  std::vector<std::vector<float>> Logits(Sequence& sequence, const std::vector<std::int32_t>& tokens,
                                         std::size_t chunk_tokens) {
    std::vector<std::vector<float>> rows;
    for (std::size_t begin = 0; begin < tokens.size(); begin += chunk_tokens) {
      const auto piece = absl::MakeConstSpan(tokens).subspan(begin, chunk_tokens);
      const absl::Status status =
          Run({{&sequence, piece, static_cast<std::int64_t>(begin), LogitsWanted::kAll}});
      EXPECT_TRUE(status.ok()) << status;
      for (std::size_t i = 0; i < piece.size(); ++i) rows.push_back(LogitsRow(static_cast<std::int64_t>(i)));
    }
    return rows;
  }

  std::vector<float> LogitsRow(std::int64_t row) const {
    const ConstTensorView logits = workspace->logits();
    return std::vector<float>(logits.row<float>(row), logits.row<float>(row) + logits.dim(1));
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> transformer;
  std::unique_ptr<Transformer::Workspace> workspace;
  std::unique_ptr<PagedKvCache> cache;
};

template <typename A, typename B>
void ExpectNear(const A& actual, const B& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], tolerance) << "at " << i;
}

// Copies everything that it is shown.
class Recorder final : public LayerTap {
 public:
  using Row = std::vector<float>;
  struct Layer {
    std::vector<Row> k, v, attention_input, residual;
  };

  TapKinds Wanted(std::int64_t layer) const override { return wanted(layer); }
  absl::Status OnLayer(const LayerView& view) override {
    order.push_back(view.layer);
    layers[view.layer] =
        Layer{Copy(view.k_pre_rope), Copy(view.v), Copy(view.attention_input), Copy(view.residual)};
    return after_layer(view.layer);
  }

  std::function<TapKinds(std::int64_t)> wanted = [](std::int64_t) {
    return TapKind::kKPreRope | TapKind::kV | TapKind::kAttentionInput | TapKind::kResidual;
  };
  std::function<absl::Status(std::int64_t)> after_layer = [](std::int64_t) { return absl::OkStatus(); };
  std::vector<std::int64_t> order;
  std::map<std::int64_t, Layer> layers;

 private:
  static std::vector<Row> Copy(const ConstTensorView& view) {
    std::vector<Row> rows;
    if (view.empty()) return rows;
    for (std::int64_t i = 0; i < view.dim(0); ++i)
      rows.emplace_back(view.row<float>(i), view.row<float>(i) + view.dim(1));
    return rows;
  }
};

struct Variant {
  std::string name;
  std::function<void(ModelConfig&)> change;
};

const std::vector<Variant>& Variants() {
  static const auto* const variants = new std::vector<Variant>{
      {"plain", [](ModelConfig&) {}},
      {"untied", [](ModelConfig& c) { c.tie_word_embeddings = false; }},
      {"qkv_bias", [](ModelConfig& c) { c.qkv_bias = true; }},
      {"all_biases", [](ModelConfig& c) { c.qkv_bias = c.o_bias = c.mlp_bias = true; }},
      {"qk_norm", [](ModelConfig& c) { c.qk_norm = true; }},
      {"window_everywhere",
       [](ModelConfig& c) {
         c.sliding_window = {5, 5, 5};
       }},
      {"window_in_some_layers",
       [](ModelConfig& c) {
         c.sliding_window = {0, 3, 9};
       }},
      {"one_kv_head", [](ModelConfig& c) { c.num_kv_heads = 1; }},
      {"head_wider_than_hidden", [](ModelConfig& c) { c.head_dim = 16; }},
  };
  return *variants;
}

class TransformerVariantTest : public ::testing::TestWithParam<std::tuple<std::string, Variant>> {
 protected:
  TransformerVariantTest() { std::get<1>(GetParam()).change(config_); }
  ModelConfig config_ = SmallConfig();
};

TEST_P(TransformerVariantTest, AgreesWithTheDefinitionInAnyChunking) {
  Rig rig = Rig::Make(std::get<0>(GetParam()), config_);
  const auto tokens = SomeTokens(23);
  const auto expected = RunPlainTransformer(config_, RandomWeights(config_), tokens);
  for (const std::size_t chunk : {std::size_t{23}, std::size_t{7}, std::size_t{1}}) {
    SCOPED_TRACE(chunk);
    const auto sequence = rig.NewSequence();
    const auto logits = rig.Logits(*sequence, tokens, chunk);
    ASSERT_EQ(logits.size(), tokens.size());
    for (std::size_t p = 0; p < logits.size(); ++p) ExpectNear(logits[p], expected.logits[p], 2e-5);
    EXPECT_EQ(sequence->valid_length(), 23);
  }
}

TEST_P(TransformerVariantTest, TapsShowTheStateBeforeRope) {
  Rig rig = Rig::Make(std::get<0>(GetParam()), config_);
  const auto tokens = SomeTokens(11);
  const auto expected = RunPlainTransformer(config_, RandomWeights(config_), tokens);
  const auto sequence = rig.NewSequence();
  Recorder tap;
  ASSERT_TRUE(rig.Run({{sequence.get(), tokens, 0, LogitsWanted::kNone}}, {.tap = &tap}).ok());
  EXPECT_THAT(tap.order, ::testing::ElementsAre(0, 1, 2));
  for (const auto& [l, layer] : tap.layers) {
    SCOPED_TRACE(l);
    const testing::PlainLayer& e = expected.layers[static_cast<std::size_t>(l)];
    for (std::size_t p = 0; p < tokens.size(); ++p) {
      ExpectNear(layer.residual[p], e.residual[p], 1e-5);
      ExpectNear(layer.attention_input[p], e.attention_input[p], 1e-5);
      ExpectNear(layer.k[p], e.k[p], 1e-5);
      ExpectNear(layer.v[p], e.v[p], 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, TransformerVariantTest,
                         ::testing::Combine(::testing::Values("reference", "cpu"),
                                            ::testing::ValuesIn(Variants())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
                         });

class TransformerTest : public ::testing::TestWithParam<std::string> {
 protected:
  ModelConfig config_ = SmallConfig();
  Rig rig_ = Rig::Make(GetParam(), config_);
};

TEST_P(TransformerTest, ABatchOfChunksEqualsEachAlone) {
  // Three sequences at different positions: the end of one prefill, a decode step, a whole short prompt.
  const std::vector<std::vector<std::int32_t>> tokens = {SomeTokens(20, 1), SomeTokens(13, 2),
                                                         SomeTokens(4, 3)};
  const std::vector<std::size_t> done_before = {12, 12, 0};
  std::vector<std::vector<std::vector<float>>> alone;
  for (const auto& t : tokens) alone.push_back(rig_.Logits(*rig_.NewSequence(), t, t.size()));

  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<ForwardChunk> chunks;
  const LogitsWanted wanted[] = {LogitsWanted::kAll, LogitsWanted::kLast, LogitsWanted::kNone};
  for (std::size_t s = 0; s < tokens.size(); ++s) {
    sequences.push_back(rig_.NewSequence());
    if (done_before[s] > 0) {
      const auto before = absl::MakeConstSpan(tokens[s]).first(done_before[s]);
      ASSERT_TRUE(rig_.Run({{sequences[s].get(), before, 0, LogitsWanted::kNone}}).ok());
    }
    chunks.push_back({sequences[s].get(), absl::MakeConstSpan(tokens[s]).subspan(done_before[s]),
                      static_cast<std::int64_t>(done_before[s]), wanted[s]});
  }
  ASSERT_TRUE(rig_.Run(chunks).ok());
  ASSERT_EQ(rig_.workspace->logits().shape(), Shape({9, 50}));
  for (std::int64_t i = 0; i < 8; ++i)
    ExpectNear(rig_.LogitsRow(i), alone[0][static_cast<std::size_t>(12 + i)], 1e-5);
  ExpectNear(rig_.LogitsRow(8), alone[1].back(), 1e-5);

  // The third sequence's K and V, of which no logits were seen, carry on as if it had run alone.
  auto longer = tokens[2];
  longer.push_back(9);
  const auto expected = rig_.Logits(*rig_.NewSequence(), longer, 5);
  ASSERT_TRUE(
      rig_.Run({{sequences[2].get(), absl::MakeConstSpan(longer).last(1), 4, LogitsWanted::kLast}}).ok());
  ExpectNear(rig_.LogitsRow(0), expected.back(), 1e-5);
}

TEST_P(TransformerTest, LogitsOfTheLastRowOnlyAreThoseOfAll) {
  const auto tokens = SomeTokens(19);
  const auto all = rig_.Logits(*rig_.NewSequence(), tokens, 19);
  const auto sequence = rig_.NewSequence();
  ASSERT_TRUE(rig_.Run({{sequence.get(), tokens, 0, LogitsWanted::kLast}}).ok());
  ASSERT_EQ(rig_.workspace->logits().shape(), Shape({1, 50}));
  ExpectNear(rig_.LogitsRow(0), all.back(), 1e-5);
  ASSERT_TRUE(rig_.Run({{rig_.NewSequence().get(), tokens, 0, LogitsWanted::kNone}}).ok());
  EXPECT_EQ(rig_.workspace->logits().dim(0), 0);
}

TEST_P(TransformerTest, TapsGetWhatTheyAskForAndNothingElse) {
  Recorder tap;
  tap.wanted = [](std::int64_t layer) {
    return layer == 1 ? TapKinds() : layer == 0 ? TapKinds(TapKind::kV) : TapKinds(TapKind::kResidual);
  };
  ASSERT_TRUE(
      rig_.Run({{rig_.NewSequence().get(), SomeTokens(5), 0, LogitsWanted::kLast}}, {.tap = &tap}).ok());
  EXPECT_THAT(tap.order, ::testing::ElementsAre(0, 2));
  EXPECT_EQ(tap.layers[0].v.size(), 5u);
  EXPECT_TRUE(tap.layers[0].k.empty() && tap.layers[0].attention_input.empty() &&
              tap.layers[0].residual.empty());
  EXPECT_EQ(tap.layers[2].residual.size(), 5u);
  EXPECT_TRUE(tap.layers[2].v.empty());
}

TEST_P(TransformerTest, AnErrorOfTheTapEndsThePass) {
  Recorder tap;
  tap.after_layer = [](std::int64_t layer) {
    return layer == 1 ? absl::DataLossError("enough") : absl::OkStatus();
  };
  const auto sequence = rig_.NewSequence();
  const auto tokens = SomeTokens(5);
  const absl::Status status = rig_.Run({{sequence.get(), tokens, 0, LogitsWanted::kLast}}, {.tap = &tap});
  EXPECT_EQ(status, absl::DataLossError("enough"));
  EXPECT_THAT(tap.order, ::testing::ElementsAre(0, 1));
  EXPECT_EQ(sequence->valid_length(), 0);
}

TEST_P(TransformerTest, CancellationIsSeenBeforeTheNextLayer) {
  std::stop_source stop;
  Recorder tap;
  tap.after_layer = [&](std::int64_t layer) {
    if (layer == 1) stop.request_stop();
    return absl::OkStatus();
  };
  const auto sequence = rig_.NewSequence();
  const auto tokens = SomeTokens(5);
  const ForwardChunk chunk{sequence.get(), tokens, 0, LogitsWanted::kLast};
  EXPECT_EQ(rig_.Run({chunk}, {.tap = &tap, .cancel = stop.get_token()}).code(),
            absl::StatusCode::kCancelled);
  EXPECT_THAT(tap.order, ::testing::ElementsAre(0, 1));
  EXPECT_EQ(sequence->valid_length(), 0);
  // The same sequence can still be computed.
  EXPECT_TRUE(rig_.Run({chunk}).ok());
  EXPECT_EQ(sequence->valid_length(), 5);
}

TEST_P(TransformerTest, ChecksEverythingBeforeItTouchesAnything) {
  const auto sequence = rig_.NewSequence(12);
  const auto other = rig_.NewSequence(40);
  const auto tokens = SomeTokens(13);
  const std::vector<std::int32_t> negative = {1, -1};
  const std::vector<std::int32_t> beyond = {1, 50};
  const auto many = SomeTokens(kMaxRows);
  const auto expect = [&](const std::vector<ForwardChunk>& chunks, absl::StatusCode code,
                          const std::string& text) {
    const absl::Status status = rig_.Run(chunks);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  const auto first = [&](std::size_t n) { return absl::MakeConstSpan(tokens).first(n); };
  const auto kNone = LogitsWanted::kNone;
  using enum absl::StatusCode;
  expect({}, kInvalidArgument, "no chunks");
  expect({{nullptr, first(1), 0, kNone}}, kInvalidArgument, "no sequence");
  expect({{sequence.get(), {}, 0, kNone}}, kInvalidArgument, "no tokens");
  expect({{sequence.get(), negative, 0, kNone}}, kInvalidArgument, "token 1 is -1");
  expect({{sequence.get(), beyond, 0, kNone}}, kInvalidArgument, "token 1 is 50");
  expect({{sequence.get(), tokens, 0, kNone}}, kOutOfRange, "the limit is 12");
  expect({{sequence.get(), first(1), -1, kNone}}, kOutOfRange, "position -1");
  expect({{sequence.get(), first(1), 12, kNone}}, kOutOfRange, "position 12");
  expect({{sequence.get(), first(2), 3, kNone}}, kFailedPrecondition, "only the first 0");
  expect({{other.get(), many, 0, kNone}, {sequence.get(), first(1), 0, kNone}}, kInvalidArgument, "41 rows");
  expect({{sequence.get(), first(2), 0, kNone}, {sequence.get(), first(2), 0, kNone}}, kInvalidArgument,
         "two chunks");
  EXPECT_EQ(sequence->valid_length(), 0);
  EXPECT_EQ(other->valid_length(), 0);

  const auto small = *rig_.transformer->CreateWorkspace(5, 1);
  const ForwardChunk all{sequence.get(), first(2), 0, LogitsWanted::kAll};
  EXPECT_EQ(rig_.transformer->Forward(*small, {&all, 1}).code(), kInvalidArgument);
  EXPECT_EQ(rig_.transformer->CreateWorkspace(0, 0).status().code(), kInvalidArgument);
  EXPECT_EQ(rig_.transformer->CreateWorkspace(4, 5).status().code(), kInvalidArgument);
}

TEST_P(TransformerTest, RefusesPagesAndWorkspacesOfAnotherModel) {
  ModelConfig config = config_;
  config.num_layers = 2;
  config.hidden_size = 32;
  Rig other = Rig::Make(GetParam(), config);
  const auto tokens = SomeTokens(3);
  const auto foreign = other.NewSequence();
  EXPECT_EQ(rig_.Run({{foreign.get(), tokens, 0, LogitsWanted::kNone}}).code(),
            absl::StatusCode::kInvalidArgument);
  const auto own = rig_.NewSequence();
  const ForwardChunk chunk{own.get(), tokens, 0, LogitsWanted::kNone};
  EXPECT_EQ(rig_.transformer->Forward(*other.workspace, {&chunk, 1}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(TransformerTest, KvProjectionAndRopeMakeThePagesThatPrefillMakes) {
  const auto tokens = SomeTokens(8);  // one page
  const auto sequence = rig_.NewSequence(8);
  Recorder tap;
  ASSERT_TRUE(rig_.Run({{sequence.get(), tokens, 0, LogitsWanted::kNone}}, {.tap = &tap}).ok());
  Backend& backend = *rig_.backend;
  Stream& stream = rig_.workspace->stream();
  std::vector<float> input;
  for (const auto& row : tap.layers[2].attention_input) input.insert(input.end(), row.begin(), row.end());
  std::vector<float> k(8 * 16);
  std::vector<float> v(8 * 16);
  const TensorView k_view(k.data(), DType::kF32, {8, 16});
  const TensorView v_view(v.data(), DType::kF32, {8, 16});
  ASSERT_TRUE(ProjectKv(backend, stream, rig_.transformer->kv_projection(2),
                        ConstTensorView(input.data(), DType::kF32, {8, 24}), k_view, v_view)
                  .ok());
  const std::vector<std::int32_t> positions = {0, 1, 2, 3, 4, 5, 6, 7};
  ASSERT_TRUE(backend
                  .Rope(stream, k_view.Reshaped({8, 2, 8}),
                        ConstTensorView(positions.data(), DType::kI32, {8}), rig_.transformer->rope())
                  .ok());
  ASSERT_TRUE(backend.Synchronize(stream).ok());
  const PagedKv kv = sequence->view(2);
  const std::int32_t page = kv.block_table.as<std::int32_t>()[0];
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t t = 0; t < 8; ++t) {
      for (std::size_t i = 0; i < 8; ++i) {
        const std::size_t in_page = (h * 8 + t) * 8 + i;
        EXPECT_NEAR(kv.k_pages.row<float>(page)[in_page], k[t * 16 + h * 8 + i], 1e-6);
        EXPECT_NEAR(kv.v_pages.row<float>(page)[in_page], v[t * 16 + h * 8 + i], 1e-6);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, TransformerTest, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return info.param; });

TEST(TransformerCreateTest, LimitsPositionsAndRefusesWeightsOfOtherShapes) {
  const auto backend = *CreateBackend({.device = "reference"});
  const ModelConfig config = SmallConfig();
  const RandomWeights weights(config);
  EXPECT_EQ((*Transformer::Create(config, weights, *backend))->max_positions(), 64);
  EXPECT_EQ((*Transformer::Create(config, weights, *backend, {.max_positions = 9}))->max_positions(), 9);
  EXPECT_EQ(Transformer::Create(config, weights, *backend, {.max_positions = 65}).status().code(),
            absl::StatusCode::kInvalidArgument);
  ModelConfig wider = config;
  wider.intermediate_size = 48;
  const absl::Status status = Transformer::Create(wider, weights, *backend).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 0"));
  ModelConfig invalid = config;
  invalid.num_heads = 3;
  EXPECT_EQ(Transformer::Create(invalid, weights, *backend).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace scd
