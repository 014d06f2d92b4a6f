#include "common/translate/layer_rebuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "common/cache/sequence.h"
#include "common/config/model_config.h"
#include "common/model/rope.h"
#include "tests/common/translate/elsewhere_backend.h"
#include "tests/common/translate/expected.h"

namespace scd {
namespace {

using testing::DeviceTensor;
using testing::ExpectNear;
using ::testing::HasSubstr;
using testing::kDKv;
using testing::kFirst;
using testing::kHeadDim;
using testing::kHeads;
using testing::kTokens;
using testing::Values;

constexpr std::int64_t kPositions = 16;

class LayerRebuilderTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    backend_ = testing::TestBackend(GetParam());
    ASSERT_NE(backend_, nullptr);
    stream_ = *backend_->CreateStream();
    bundle_ = expected_.OpenBundle();
    ASSERT_NE(bundle_, nullptr);
    w_k_ = *backend_->PackWeight(expected_.Get("model.w_k"), expected_.Get("model.b_k"));
    w_v_ = *backend_->PackWeight(expected_.Get("model.w_v"), expected_.Get("model.b_v"));
    projection_ = {.k = {.weight = w_k_.get()},
                   .v = {.weight = w_v_.get()},
                   .k_norm = expected_.Get("model.k_norm"),
                   .norm_epsilon = 1e-6f,
                   .num_kv_heads = kHeads,
                   .head_dim = kHeadDim};
    const RopeConfig rope;  // theta 10000
    rope_ = *RopeTables::Create(*backend_, ComputeRopeFrequencies(rope, kHeadDim), kPositions);
    cache_ = *PagedKvCache::Create(*backend_,
                                   {.num_layers = 2,
                                    .num_kv_heads = kHeads,
                                    .head_dim = kHeadDim,
                                    .page_tokens = 4,
                                    .dtype = DType::kF32},
                                   8);
    sequence_ = *Sequence::Create(*cache_, kPositions);
  }

  absl::StatusOr<std::unique_ptr<LayerRebuilder>> Create(const LayerPlan& plan) {
    const std::vector<KvProjection> projections(2, projection_);
    return LayerRebuilder::Create(*bundle_, plan, projections, rope_->table(), *backend_);
  }

  std::unique_ptr<LayerRebuilder> Make(std::int64_t rank_h, Codec codec) {
    auto rebuilder = Create(testing::PlanFor(*bundle_, rank_h, codec));
    EXPECT_TRUE(rebuilder.ok()) << rebuilder.status();
    return *std::move(rebuilder);
  }

  // numpy's codes as they come from the wire.
  LayerCode Code(std::int64_t layer, CodeKind kind, std::int64_t rank, Codec codec) {
    LayerCode code{.layer = layer,
                   .kind = kind,
                   .first_token = kFirst,
                   .num_tokens = kTokens,
                   .rank = rank,
                   .codec = codec,
                   .payload = {}};
    const std::string prefix = codec == Codec::kF32 ? "codes.f32." : "codes.bf16.";
    for (const float value :
         Values(expected_.Get(prefix + std::string(CodeKindName(kind)) + "." + std::to_string(rank)))) {
      const std::uint16_t half = FloatToBf16(value);
      codec == Codec::kF32 ? code.payload.append(reinterpret_cast<const char*>(&value), sizeof(value))
                           : code.payload.append(reinterpret_cast<const char*>(&half), sizeof(half));
    }
    return code;
  }

  absl::Status Rebuild(const LayerRebuilder& rebuilder, const LayerCode& code,
                       std::int64_t max_tokens = kTokens) {
    auto workspace = *rebuilder.CreateWorkspace(max_tokens);
    const absl::Status status = rebuilder.Rebuild(*workspace, *stream_, code, testing::PagesOf(*sequence_));
    EXPECT_TRUE(backend_->Synchronize(*stream_).ok());
    return status;
  }

  // Positions [kFirst, kFirst + kTokens) of a pool's pages as rows [tokens, d_kv].
  std::vector<float> Cached(const TensorView& pages) {
    const auto* const table = sequence_->view(0).block_table.as<std::int32_t>();
    const std::int64_t page_tokens = pages.dim(2);
    std::vector<float> rows;
    for (std::int64_t p = kFirst; p < kFirst + kTokens; ++p) {
      for (std::int64_t head = 0; head < kHeads; ++head) {
        const float* const slot =
            pages.row<float>(table[p / page_tokens]) + (head * page_tokens + p % page_tokens) * kHeadDim;
        rows.insert(rows.end(), slot, slot + kHeadDim);
      }
    }
    return rows;
  }

  void ExpectRefused(const absl::Status& status, const std::string& message) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  const testing::Expected expected_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Bundle> bundle_;
  std::unique_ptr<PackedWeight> w_k_, w_v_;
  KvProjection projection_;
  std::unique_ptr<RopeTables> rope_;
  std::unique_ptr<PagedKvCache> cache_;
  std::unique_ptr<Sequence> sequence_;
};

TEST_P(LayerRebuilderTest, PagesHoldWhatNumpyComputes) {
  for (const auto& [codec, name] :
       {std::pair{Codec::kF32, std::string("f32")}, {Codec::kBF16, std::string("bf16")}}) {
    for (const std::int64_t rank_h : {4, 9}) {
      const auto rebuilder = Make(rank_h, codec);
      const std::string rank = std::to_string(rank_h);
      ASSERT_TRUE(Rebuild(*rebuilder, Code(0, CodeKind::kK, testing::kRankK, codec)).ok());
      ASSERT_TRUE(Rebuild(*rebuilder, Code(0, CodeKind::kV, testing::kRankV, codec)).ok());
      ASSERT_TRUE(Rebuild(*rebuilder, Code(1, CodeKind::kH, rank_h, codec)).ok());
      ExpectNear(Cached(cache_->k_pages(0)), Values(expected_.Get("roped." + name + ".k.5")), 1e-5f);
      ExpectNear(Cached(cache_->v_pages(0)), Values(expected_.Get("rebuilt." + name + ".v.7")), 1e-5f);
      ExpectNear(Cached(cache_->k_pages(1)), Values(expected_.Get("patched." + name + ".roped." + rank)),
                 1e-5f);
      ExpectNear(Cached(cache_->v_pages(1)), Values(expected_.Get("patched." + name + ".v." + rank)), 1e-5f);
    }
  }
}

TEST_P(LayerRebuilderTest, DecodeIsBeforeRope) {
  for (const auto& [codec, name] :
       {std::pair{Codec::kF32, std::string("f32")}, {Codec::kBF16, std::string("bf16")}}) {
    const auto rebuilder = Make(9, codec);
    auto workspace = *rebuilder->CreateWorkspace(3);
    DeviceTensor k(*backend_, Shape{kTokens, kDKv}), v(*backend_, Shape{kTokens, kDKv});
    const auto decode = [&](const LayerCode& code, TensorView k_out, TensorView v_out) {
      const absl::Status status = rebuilder->Decode(*workspace, *stream_, code, k_out, v_out);
      EXPECT_TRUE(status.ok()) << status;
    };
    decode(Code(0, CodeKind::kK, 5, codec), k.view(), TensorView());
    decode(Code(0, CodeKind::kV, 7, codec), TensorView(), v.view());
    ExpectNear(Values(k.view()), Values(expected_.Get("rebuilt." + name + ".k.5")), 1e-5f);
    ExpectNear(Values(v.view()), Values(expected_.Get("rebuilt." + name + ".v.7")), 1e-5f);
    decode(Code(1, CodeKind::kH, 9, codec), k.view(), v.view());
    ExpectNear(Values(k.view()), Values(expected_.Get("patched." + name + ".k.9")), 1e-5f);
    ExpectNear(Values(v.view()), Values(expected_.Get("patched." + name + ".v.9")), 1e-5f);
  }
}

// With one token a slice the ring of staging slots goes round.
TEST_P(LayerRebuilderTest, SlicesAreTheWhole) {
  const auto rebuilder = Make(9, Codec::kBF16);
  const LayerCode code = Code(1, CodeKind::kH, 9, Codec::kBF16);
  ASSERT_TRUE(Rebuild(*rebuilder, code, kTokens).ok());
  const auto k = Cached(cache_->k_pages(1)), v = Cached(cache_->v_pages(1));
  for (const std::int64_t max_tokens : {1, 2, 3, 6, 100}) {
    sequence_ = *Sequence::Create(*cache_, kPositions);
    ASSERT_TRUE(Rebuild(*rebuilder, code, max_tokens).ok());
    ExpectNear(Cached(cache_->k_pages(1)), k, 1e-6f);
    ExpectNear(Cached(cache_->v_pages(1)), v, 1e-6f);
  }
}

TEST_P(LayerRebuilderTest, WritesNothingButItsPositionsAndKind) {
  const auto rebuilder = Make(9, Codec::kF32);
  constexpr float kMark = 123.0f;
  for (const TensorView& pages :
       {cache_->k_pages(0), cache_->v_pages(0), cache_->k_pages(1), cache_->v_pages(1)}) {
    std::fill_n(pages.as<float>(), pages.num_elements(), kMark);
  }
  ASSERT_TRUE(Rebuild(*rebuilder, Code(0, CodeKind::kK, 5, Codec::kF32)).ok());
  const auto marks = [&](const TensorView& pages) {
    return std::count(pages.as<float>(), pages.as<float>() + pages.num_elements(), kMark);
  };
  EXPECT_EQ(marks(cache_->k_pages(0)), cache_->k_pages(0).num_elements() - kTokens * kDKv);
  EXPECT_EQ(marks(cache_->v_pages(0)), cache_->v_pages(0).num_elements());
  EXPECT_EQ(marks(cache_->k_pages(1)), cache_->k_pages(1).num_elements());
  ASSERT_TRUE(Rebuild(*rebuilder, Code(0, CodeKind::kV, 7, Codec::kF32)).ok());
  EXPECT_EQ(marks(cache_->v_pages(0)), cache_->v_pages(0).num_elements() - kTokens * kDKv);
}

TEST_P(LayerRebuilderTest, TheCodeMayGoAwayAndOtherStreamsMayFollow) {
  const auto rebuilder = Make(9, Codec::kF32);
  auto workspace = *rebuilder->CreateWorkspace(kTokens);
  const auto other_stream = *backend_->CreateStream();
  for (int round = 0; round < 12; ++round) {
    LayerCode code = Code(1, CodeKind::kH, 9, Codec::kF32);
    Stream& stream = round % 2 == 0 ? *stream_ : *other_stream;
    ASSERT_TRUE(rebuilder->Rebuild(*workspace, stream, code, testing::PagesOf(*sequence_)).ok());
    code.payload.assign(code.payload.size(), '\xFF');
    ASSERT_TRUE(backend_->Synchronize(stream).ok());
    ExpectNear(Cached(cache_->k_pages(1)), Values(expected_.Get("patched.f32.roped.9")), 1e-5f);
  }
}

TEST_P(LayerRebuilderTest, CodesThatThePlanHasNotAreRefused) {
  const auto rebuilder = Make(9, Codec::kBF16);
  const LayerCode good = Code(0, CodeKind::kK, 5, Codec::kBF16);
  const auto expect = [&](auto change, const std::string& message) {
    LayerCode code = good;
    change(code);
    auto workspace = *rebuilder->CreateWorkspace(kTokens);
    ExpectRefused(rebuilder->Rebuild(*workspace, *stream_, code, testing::PagesOf(*sequence_)), message);
    DeviceTensor k(*backend_, Shape{kTokens, kDKv}), v(*backend_, Shape{kTokens, kDKv});
    ExpectRefused(rebuilder->Decode(*workspace, *stream_, code, k.view(), v.view()), message);
  };
  expect([](LayerCode& c) { c.layer = 2; }, "is for no layer of the plan");
  expect([](LayerCode& c) { c.layer = -1; }, "is for no layer of the plan");
  expect([](LayerCode& c) { c.layer = 1; }, "layer 1 k is none that the plan sends");
  expect([](LayerCode& c) { c.kind = CodeKind::kH; }, "layer 0 h is none that the plan sends");
  expect([](LayerCode& c) { c.rank = 4; }, "has another rank or codec than the plan");
  expect([](LayerCode& c) { c.kind = CodeKind::kV; }, "has another rank or codec than the plan");
  expect([](LayerCode& c) { c.codec = Codec::kF32; }, "has another rank or codec than the plan");
  expect([](LayerCode& c) { c.num_tokens = 0; }, "has 70 bytes for 0 tokens from 3");
  expect([](LayerCode& c) { c.num_tokens = 8; }, "has 70 bytes for 8 tokens");
  expect([](LayerCode& c) { c.num_tokens = std::numeric_limits<std::int64_t>::max(); },
         "has 70 bytes for 9223372036854775807");
  expect([](LayerCode& c) { c.payload.pop_back(); }, "has 69 bytes for 7 tokens");
  expect([](LayerCode& c) { c.first_token = -1; }, "from -1");
}

TEST_P(LayerRebuilderTest, PositionsBeyondTheTableOrThePagesAreRefused) {
  const auto rebuilder = Make(9, Codec::kBF16);
  for (const std::int64_t first :
       {kPositions - kTokens + 1, kPositions, std::numeric_limits<std::int64_t>::max()}) {
    LayerCode code = Code(0, CodeKind::kK, 5, Codec::kBF16);
    code.first_token = first;
    EXPECT_EQ(Rebuild(*rebuilder, code).code(), absl::StatusCode::kOutOfRange);
  }
  sequence_ = *Sequence::Create(*cache_, 4);  // one page
  EXPECT_FALSE(Rebuild(*rebuilder, Code(0, CodeKind::kV, 7, Codec::kBF16)).ok());
}

TEST_P(LayerRebuilderTest, AFailedRebuildLeavesTheWorkspaceUsable) {
  const auto rebuilder = Make(9, Codec::kF32);
  auto workspace = *rebuilder->CreateWorkspace(kTokens);
  const LayerCode code = Code(0, CodeKind::kK, 5, Codec::kF32);
  PagedKv broken = sequence_->view(0);
  broken.block_table = broken.block_table.rows(0, 1);
  EXPECT_FALSE(rebuilder->Rebuild(*workspace, *stream_, code, [&](std::int64_t) { return broken; }).ok());
  ASSERT_TRUE(rebuilder->Rebuild(*workspace, *stream_, code, testing::PagesOf(*sequence_)).ok());
  ExpectNear(Cached(cache_->k_pages(0)), Values(expected_.Get("roped.f32.k.5")), 1e-5f);
}

TEST_P(LayerRebuilderTest, ModelsOfAnotherShapeAreRefused) {
  const LayerPlan plan = testing::PlanFor(*bundle_, 9, Codec::kF32);
  const KvProjection good = projection_;
  projection_.num_kv_heads = 1;
  ExpectRefused(Create(plan).status(),
                "K/V product of layer 0 has another shape than the bundle's: hidden 12, 2 heads");
  projection_ = good;
  projection_.v = {};
  ExpectRefused(Create(plan).status(), "K/V product of layer 0");
  projection_ = good;
  const auto narrow = *backend_->PackWeight(expected_.Get("model.w_k").rows(0, 4), ConstTensorView());
  projection_.k = {.weight = narrow.get()};
  ExpectRefused(Create(plan).status(), "K/V product of layer 0");
  projection_ = good;
  const std::vector<KvProjection> three(3, projection_);
  ExpectRefused(LayerRebuilder::Create(*bundle_, plan, three, rope_->table(), *backend_).status(),
                "the model has 3 layers, the plan 2");
  const std::vector<KvProjection> two(2, projection_);
  ExpectRefused(LayerRebuilder::Create(*bundle_, plan, two, RopeTable(), *backend_).status(),
                "the RoPE table");
  LayerPlan impossible = plan;
  impossible.layers[1].rank_h = 5;
  ExpectRefused(Create(impossible).status(), "plan.layers[1].rank_h: 5 is not among the ranks");
}

TEST_P(LayerRebuilderTest, WorkspacesBelongToTheirRebuilder) {
  const auto rebuilder = Make(9, Codec::kF32);
  const auto other = Make(9, Codec::kF32);
  auto workspace = *other->CreateWorkspace(kTokens);
  ExpectRefused(rebuilder->Rebuild(*workspace, *stream_, Code(0, CodeKind::kK, 5, Codec::kF32),
                                   testing::PagesOf(*sequence_)),
                "the workspace is another rebuilder's");
  ExpectRefused(rebuilder->CreateWorkspace(0).status(), "at least one token");
}

TEST_P(LayerRebuilderTest, ThreadsShareARebuilder) {
  const auto rebuilder = Make(9, Codec::kBF16);
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (int i = 0; i < 2; ++i) sequences.push_back(*Sequence::Create(*cache_, kFirst + kTokens - 2));
  std::vector<std::thread> threads;
  for (auto& sequence : sequences) {
    threads.emplace_back([&] {
      auto workspace = *rebuilder->CreateWorkspace(3);
      const auto stream = *backend_->CreateStream();
      LayerCode code = Code(1, CodeKind::kH, 9, Codec::kBF16);
      code.first_token = 1;
      for (int round = 0; round < 20; ++round) {
        EXPECT_TRUE(rebuilder->Rebuild(*workspace, *stream, code, testing::PagesOf(*sequence)).ok());
      }
      EXPECT_TRUE(backend_->Synchronize(*stream).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto v_of = [&](const Sequence& sequence) {
    const PagedKv view = sequence.view(1);
    return view.v_pages.row<float>(view.block_table.as<std::int32_t>()[0])[kHeadDim];
  };
  EXPECT_EQ(v_of(*sequences[0]), v_of(*sequences[1]));
}

INSTANTIATE_TEST_SUITE_P(Backends, LayerRebuilderTest, ::testing::Values("reference", "cpu", "elsewhere"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace scd
