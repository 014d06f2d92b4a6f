// Rows of the producer -> payload -> frames -> pages of the consumer, for every treatment in every codec.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/cache/sequence.h"
#include "common/model/rope.h"
#include "common/translate/layer_encoder.h"
#include "common/translate/layer_rebuilder.h"
#include "common/translate/plan_entropy.h"
#include "common/wire/frame_codec.h"
#include "common/wire/payload_format.h"
#include "common/wire/payload_numbers.h"
#include "tests/common/translate/elsewhere_backend.h"
#include "tests/common/translate/expected.h"

namespace scd {
namespace {

using testing::DeviceTensor;

// The first code's granules are [1, 33), [33, 65) and [65, 71).
constexpr std::int64_t kFirstToken = 1, kNumTokens = 70, kPositions = 96, kPageTokens = 16;

struct Treated {
  std::string name;
  PlanRequest request;
  FusedShape fused = {.rank = 10};
};
void PrintTo(const Treated& treated, std::ostream* out) {
  *out << treated.name;
}

const Treated kFused = {"fused", {.form = StateForm::kFused}};
const Treated kReuse = {"reuse", {.patch_layers = std::vector<std::int64_t>{}}};
const Treated kPatch = {"patch", {.rank_h = 8, .patch_layers = std::vector<std::int64_t>{1, 2}}};
const Treated kGrouped = {"fused_in_groups", {.form = StateForm::kFused}, {.rank = 20, .group = 2}};
const Treated kTreated[] = {
    kReuse,
    kPatch,
    kFused,
    kGrouped,
    {"raw", {.form = StateForm::kRaw}},
    {"raw_roped", {.form = StateForm::kRawRoped}},
};

class CodeRoundTripTest : public ::testing::TestWithParam<std::tuple<std::string, Treated>> {
 protected:
  void SetUp() override {
    backend_ = testing::TestBackend(std::get<0>(GetParam()));
    ASSERT_NE(backend_, nullptr);
    stream_ = *backend_->CreateStream();
    const ModelConfig config = testing::TinyConfig();
    testing::TinyBundleOptions options;
    options.fused = std::get<1>(GetParam()).fused;
    const auto digest = testing::WriteTinyBundle(dir_.File("bundle"), config, testing::MadeUpModel("a"),
                                                 testing::MadeUpModel("b"), options);
    ASSERT_TRUE(digest.ok()) << digest.status();
    bundle_ = *Bundle::Open(dir_.File("bundle"));
    rope_ = *RopeTables::Create(*backend_, ComputeRopeFrequencies(config.rope, config.head_dim), kPositions);
    const Rows weights = NormalRows(2 * config.d_kv(), config.hidden_size);
    const ConstTensorView both = weights.view();
    w_k_ = *backend_->PackWeight(both.rows(0, config.d_kv()), ConstTensorView());
    w_v_ = *backend_->PackWeight(both.rows(config.d_kv(), config.d_kv()), ConstTensorView());
    KvProjection projection;
    projection.k = {.weight = w_k_.get()};
    projection.v = {.weight = w_v_.get()};
    projection.num_kv_heads = config.num_kv_heads;
    projection.head_dim = config.head_dim;
    projections_.assign(static_cast<std::size_t>(config.num_layers), projection);
    earlier_ = NormalRows(kNumTokens, config.hidden_size);
    cache_ = *PagedKvCache::Create(*backend_,
                                   {.num_layers = config.num_layers,
                                    .num_kv_heads = config.num_kv_heads,
                                    .head_dim = config.head_dim,
                                    .page_tokens = kPageTokens,
                                    .dtype = DType::kF32},
                                   2 * kPositions / kPageTokens);
  }

  struct Rows {
    Shape shape;
    std::vector<float> values;
    ConstTensorView view() const { return ConstTensorView(values.data(), DType::kF32, shape); }
  };
  Rows NormalRows(std::int64_t rows, std::int64_t columns) {
    Rows out{{rows, columns}, std::vector<float>(static_cast<std::size_t>(rows * columns))};
    std::normal_distribution<float> normal(0.0f, 1.0f);
    for (float& x : out.values) x = normal(random_);
    return out;
  }

  LayerPlan Plan(Codec codec) const {
    PlanRequest request = std::get<1>(GetParam()).request;
    request.codec = codec;
    auto plan = bundle_->ResolvePlan(request);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *plan;
  }
  static bool IsReference() { return std::get<0>(GetParam()) == "reference"; }
  bool HasTables() const { return std::get<1>(GetParam()).request.form == StateForm::kCodes || IsFused(); }
  bool IsFused() const { return std::get<1>(GetParam()).request.form == StateForm::kFused; }
  std::vector<Codec> Codecs() const {
    std::vector<Codec> codecs(kAllCodecs.begin(), kAllCodecs.end());
    if (!HasTables()) codecs.erase(std::find(codecs.begin(), codecs.end(), Codec::kEntropy));
    return codecs;
  }

  LayerCode Encode(const LayerPlan& plan, const SentKind& sent, const ConstTensorView& rows) {
    const auto encoder = *LayerEncoder::Create(*bundle_, plan, rope_->table(), *backend_);
    const auto workspace = *encoder->CreateWorkspace(kNumTokens);
    for (std::int64_t layer = plan.CodeLayers(1).first; layer < 1; ++layer) {
      EXPECT_TRUE(encoder->Keep(*workspace, *stream_, layer, earlier_.view(), kFirstToken).ok());
    }
    auto code = encoder->Encode(*workspace, *stream_, 1, sent.kind, rows, kFirstToken);
    EXPECT_TRUE(code.ok()) << code.status();
    return *std::move(code);
  }

  // What the payload says, without the rebuilder.
  std::vector<float> NumbersOf(const LayerPlan& plan, const LayerCode& code) {
    if (plan.codec != Codec::kEntropy) return testing::Numbers(code);
    const auto coder =
        *EntropyCoderFor(*bundle_, plan, code.layer, {code.kind, code.rank}, UnsentColumns::kKeep);
    std::vector<float> numbers(static_cast<std::size_t>(code.num_tokens * code.rank));
    const absl::Status status =
        coder->Decode(code.payload, code.num_tokens, 0, code.num_tokens, numbers.data());
    EXPECT_TRUE(status.ok()) << status;
    return numbers;
  }

  // K and V of layers 0 and 1 after the codes were rebuilt one after the other.
  std::vector<float> Rebuilt(const LayerPlan& plan, const std::vector<LayerCode>& codes,
                             std::int64_t max_tokens) {
    const auto rebuilder = *LayerRebuilder::Create(*bundle_, plan, projections_, rope_->table(), *backend_);
    const auto workspace = *rebuilder->CreateWorkspace(max_tokens);
    const auto sequence = *Sequence::Create(*cache_, kPositions);
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      const PagedKv pages = sequence->view(layer);
      for (const TensorView& side : {pages.k_pages, pages.v_pages}) {
        std::fill_n(side.as<float>(), side.num_elements(), 0.0f);
      }
    }
    for (const LayerCode& code : codes) {
      const absl::Status status = rebuilder->Rebuild(*workspace, *stream_, code, testing::PagesOf(*sequence));
      EXPECT_TRUE(status.ok()) << status;
    }
    EXPECT_TRUE(backend_->Synchronize(*stream_).ok());
    std::vector<float> contents;
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      const PagedKv pages = sequence->view(layer);
      const auto* const table = pages.block_table.as<std::int32_t>();
      for (const TensorView& side : {pages.k_pages, pages.v_pages}) {
        for (std::int64_t page = 0; page < kPositions / kPageTokens; ++page) {
          const float* const values = side.row<float>(table[page]);
          contents.insert(contents.end(), values, values + side.stride(0));
        }
      }
    }
    return contents;
  }

  // [begin, end) of the code's tokens.
  static LayerCode Piece(const LayerCode& code, std::int64_t begin, std::int64_t end) {
    const PayloadCuts cuts(code);
    LayerCode piece = code;
    piece.first_token += begin;
    piece.num_tokens = end - begin;
    piece.payload =
        code.payload.substr(cuts.BytesBefore(begin), cuts.BytesBefore(end) - cuts.BytesBefore(begin));
    return piece;
  }

  std::int64_t WidthOf(CodeKind kind) const {
    const BundleManifest& m = bundle_->manifest();
    return kind == CodeKind::kK || kind == CodeKind::kV ? m.d_kv() : m.hidden_size;
  }

  std::mt19937 random_{31};
  Rows earlier_;  // of the layer before
  const testing::TempDir dir_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Bundle> bundle_;
  std::unique_ptr<RopeTables> rope_;
  std::unique_ptr<PackedWeight> w_k_, w_v_;
  std::vector<KvProjection> projections_;
  std::unique_ptr<PagedKvCache> cache_;
};

// Largest error that the codec may make of numbers that spread over `range`.
double Allowed(Codec codec, double range) {
  switch (codec) {
    case Codec::kF32:
      return 0;
    case Codec::kBF16:
      return range / 256;
    case Codec::kInt8:
      return range / 255;
    case Codec::kInt4:
      return range / 15;
    case Codec::kEntropy:
      break;
  }
  return std::sqrt(12 * 0.0001) / 2 * 1.0001;  // half the step of the bundle's first rate point
}

TEST_P(CodeRoundTripTest, PagesHoldWhatThePayloadSays) {
  const LayerPlan exact = Plan(Codec::kF32);
  for (const SentKind& sent : SentKinds(exact.layers[1])) {
    const Rows rows = NormalRows(kNumTokens, WidthOf(sent.kind));
    const LayerCode plain = Encode(exact, sent, rows.view());
    const std::vector<float> codes = testing::Numbers(plain);
    const auto [least, most] = std::minmax_element(codes.begin(), codes.end());
    for (const Codec codec : Codecs()) {
      SCOPED_TRACE(CodecName(codec));
      const LayerPlan plan = Plan(codec);
      const LayerCode code = Encode(plan, sent, rows.view());
      EXPECT_TRUE(CheckPayload(codec, code.kind, code.num_tokens, code.rank, code.payload).ok());
      const std::vector<float> numbers = NumbersOf(plan, code);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (codec == Codec::kEntropy && static_cast<std::int64_t>(i) % code.rank % 5 == 4) {
          ASSERT_EQ(numbers[i], 0.0f) << "a column that is not sent";
        } else {
          ASSERT_NEAR(numbers[i], codes[i], Allowed(codec, *most - *least));
        }
      }
      std::vector<LayerCode> received;
      for (v1::CodeFrame& frame : ToFrames(code)) received.push_back(*FromFrame(std::move(frame)));
      LayerCode said = plain;
      said.payload.assign(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
      const std::vector<float> expected = Rebuilt(exact, {said}, kNumTokens);
      for (const std::int64_t max_tokens : {1, 33, 200}) {
        testing::ExpectNear(Rebuilt(plan, received, max_tokens), expected, 2e-5f);
      }
    }
  }
}

// However a code is cut between granules and worked off in slices. A product of more rows may round in
// another order.
TEST_P(CodeRoundTripTest, GranulesAreRebuiltAsTheWhole) {
  for (const Codec codec : Codecs()) {
    const LayerPlan plan = Plan(codec);
    for (const SentKind& sent : SentKinds(plan.layers[1])) {
      SCOPED_TRACE(std::string(CodecName(codec)) + " " + std::string(CodeKindName(sent.kind)));
      const LayerCode code = Encode(plan, sent, NormalRows(kNumTokens, WidthOf(sent.kind)).view());
      const std::vector<float> whole = Rebuilt(plan, {code}, 200);
      const auto expect = [&](const std::vector<LayerCode>& pieces, std::int64_t max_tokens) {
        testing::ExpectNear(Rebuilt(plan, pieces, max_tokens), whole, IsReference() ? 0.0f : 1e-5f);
      };
      expect({Piece(code, 0, 32), Piece(code, 32, 64), Piece(code, 64, 70)}, 32);
      expect({Piece(code, 0, 64), Piece(code, 64, 70)}, 200);
      expect({Piece(code, 32, 70), Piece(code, 0, 32)}, 64);
      expect({code}, 1);
    }
  }
}

class GroupRoundTripTest : public CodeRoundTripTest {};

TEST_P(GroupRoundTripTest, CodesAreTheSumOfTheLayersShares) {
  const LayerPlan plan = Plan(Codec::kF32);
  const SentKind sent = SentKinds(plan.layers[1])[0];
  const Rows rows = NormalRows(kNumTokens, WidthOf(sent.kind));
  const std::vector<float> codes = testing::Numbers(Encode(plan, sent, rows.view()));
  const FusedTranslator before = *bundle_->Fused(0), own = *bundle_->Fused(1);
  for (std::int64_t t = 0; t < kNumTokens; ++t) {
    for (std::int64_t c = 0; c < sent.rank; ++c) {
      double expected = own.encoder_bias.as<float>()[c];
      for (std::int64_t h = 0; h < WidthOf(sent.kind); ++h) {
        expected += double{before.encoder.row<float>(c)[h]} * earlier_.view().row<float>(t)[h];
        expected += double{own.encoder.row<float>(c)[h]} * rows.view().row<float>(t)[h];
      }
      ASSERT_NEAR(codes[static_cast<std::size_t>(t * sent.rank + c)], expected, 1e-4);
    }
  }
}

TEST_P(CodeRoundTripTest, RowsOfEarlierLayersHaveToBeKept) {
  const LayerPlan plan = Plan(Codec::kF32);
  const auto encoder = *LayerEncoder::Create(*bundle_, plan, rope_->table(), *backend_);
  const auto workspace = *encoder->CreateWorkspace(kNumTokens);
  const bool alone = plan.CodeLayers(1).size() == 1;
  EXPECT_EQ(encoder->Keep(*workspace, *stream_, 0, earlier_.view(), kFirstToken).ok(), !alone);
  EXPECT_FALSE(encoder->Keep(*workspace, *stream_, 1, earlier_.view(), kFirstToken).ok());
  EXPECT_FALSE(encoder->Keep(*workspace, *stream_, -1, earlier_.view(), kFirstToken).ok());
  EXPECT_FALSE(encoder->Keep(*workspace, *stream_, 4, earlier_.view(), kFirstToken).ok());
  if (alone) return;
  const Rows rows = NormalRows(kNumTokens, WidthOf(CodeKind::kKV));
  const auto encode = [&](std::int64_t begin, std::int64_t count, std::int64_t first) {
    return encoder->Encode(*workspace, *stream_, 1, CodeKind::kKV, rows.view().rows(begin, count), first)
        .status();
  };
  EXPECT_TRUE(encode(0, kNumTokens, kFirstToken).ok());
  EXPECT_TRUE(encode(31, 20, kFirstToken + 31).ok());
  EXPECT_EQ(encode(0, 20, kFirstToken - 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(encode(0, 20, kFirstToken + kNumTokens - 19).code(), absl::StatusCode::kInvalidArgument);
}

class EntropyRoundTripTest : public CodeRoundTripTest {};

TEST_P(EntropyRoundTripTest, DamagedPayloadsAreRefusedAndTheWorkspaceGoesOn) {
  const LayerPlan plan = Plan(Codec::kEntropy);
  const SentKind sent = SentKinds(plan.layers[1])[0];
  const LayerCode good = Encode(plan, sent, NormalRows(kNumTokens, WidthOf(sent.kind)).view());
  const auto rebuilder = *LayerRebuilder::Create(*bundle_, plan, projections_, rope_->table(), *backend_);
  const auto workspace = *rebuilder->CreateWorkspace(32);
  const auto sequence = *Sequence::Create(*cache_, kPositions);
  int num_refused = 0;
  for (std::size_t at = 0; at < good.payload.size(); at += 7) {
    LayerCode bad = good;
    bad.payload[at] = static_cast<char>(bad.payload[at] ^ 0x55);
    const absl::Status status = rebuilder->Rebuild(*workspace, *stream_, bad, testing::PagesOf(*sequence));
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    ++num_refused;
  }
  EXPECT_GT(num_refused, 10);
  for (const std::string& payload : {std::string(), std::string("x"), good.payload.substr(0, 40),
                                     good.payload + "x", std::string(1 << 20, '\xFF')}) {
    LayerCode bad = good;
    bad.payload = payload;
    EXPECT_FALSE(rebuilder->Rebuild(*workspace, *stream_, bad, testing::PagesOf(*sequence)).ok());
  }
  EXPECT_TRUE(rebuilder->Rebuild(*workspace, *stream_, good, testing::PagesOf(*sequence)).ok());
  EXPECT_TRUE(backend_->Synchronize(*stream_).ok());
}

TEST_P(EntropyRoundTripTest, NumbersThatNoGridHoldsAreRefused) {
  const LayerPlan plan = Plan(Codec::kEntropy);
  const SentKind sent = SentKinds(plan.layers[1])[0];
  Rows rows = NormalRows(kNumTokens, WidthOf(sent.kind));
  rows.values[100] = 1e30f;
  const auto encoder = *LayerEncoder::Create(*bundle_, plan, rope_->table(), *backend_);
  const auto workspace = *encoder->CreateWorkspace(kNumTokens);
  EXPECT_EQ(encoder->Encode(*workspace, *stream_, 1, sent.kind, rows.view(), 0).status().code(),
            absl::StatusCode::kOutOfRange);
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<std::string, Treated>>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
}
const auto kBackends = ::testing::Values("reference", "cpu", "elsewhere");

INSTANTIATE_TEST_SUITE_P(Backends, CodeRoundTripTest,
                         ::testing::Combine(kBackends, ::testing::ValuesIn(kTreated)), NameOf);
INSTANTIATE_TEST_SUITE_P(Backends, GroupRoundTripTest,
                         ::testing::Combine(kBackends, ::testing::Values(kGrouped)), NameOf);
INSTANTIATE_TEST_SUITE_P(Backends, EntropyRoundTripTest,
                         ::testing::Combine(kBackends, ::testing::Values(kReuse, kPatch, kFused)), NameOf);

}  // namespace
}  // namespace scd
