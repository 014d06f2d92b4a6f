#include "consumer/rebuilder_cache.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/cache/paged_kv_cache.h"
#include "common/model/model_source.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

constexpr std::int64_t kTokens = 50;

class RebuilderCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = OpenModel({testing::TestDataPath("tiny-llama"), "", ""});
    ASSERT_TRUE(model.ok()) << model.status();
    backend_ = *CreateBackend({.device = "reference"});
    transformer_ = *Transformer::Create(model->config, *model->weights, *backend_);
    const BundleModel side = testing::MadeUpModel("side");
    ASSERT_TRUE(testing::WriteTinyBundle(dir_.File("bundle"), model->config, side, side).ok());
    bundle_ = *Bundle::Open(dir_.File("bundle"));
    stream_ = *backend_->CreateStream();
    const ModelConfig& config = model->config;
    cache_ =
        *PagedKvCache::Create(*backend_, {config.num_layers, config.num_kv_heads, config.head_dim, 16}, 8);
  }

  LayerPlan Plan(std::int64_t rank_k) { return *bundle_->ResolvePlan({.rank_k = rank_k}); }

  LayerCode Code(const LayerPlan& plan, std::int64_t layer, CodeKind kind) {
    LayerCode code;
    code.layer = layer;
    code.kind = kind;
    code.first_token = 3;
    code.num_tokens = kTokens;
    const LayerRanks& ranks = plan.layers[static_cast<std::size_t>(layer)];
    code.rank = kind == CodeKind::kK ? ranks.rank_k : kind == CodeKind::kV ? ranks.rank_v : ranks.rank_h;
    for (std::int64_t i = 0; i < kTokens * code.rank; ++i) {
      const std::uint16_t value = FloatToBf16(0.01f * static_cast<float>((i * 37) % 200 - 100));
      code.payload.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    return code;
  }

  // All pages of the layer after the code was rebuilt into a new sequence, and before that zeros.
  std::vector<float> Rebuilt(RebuilderCache& rebuilders, const LayerPlan& plan, const LayerCode& code) {
    std::vector<float> values;
    for (const TensorView& pages : {cache_->k_pages(code.layer), cache_->v_pages(code.layer)}) {
      std::memset(pages.data(), 0, static_cast<std::size_t>(pages.num_elements()) * sizeof(float));
    }
    const auto sequence = *Sequence::Create(*cache_, kTokens + 10);
    const absl::Status status = rebuilders.Rebuild(plan, code, *sequence, *stream_);
    EXPECT_TRUE(status.ok()) << status;
    for (const TensorView& pages : {cache_->k_pages(code.layer), cache_->v_pages(code.layer)}) {
      values.insert(values.end(), pages.as<float>(), pages.as<float>() + pages.num_elements());
    }
    return values;
  }

  testing::TempDir dir_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<Bundle> bundle_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<PagedKvCache> cache_;
};

TEST_F(RebuilderCacheTest, LongCodesAreRebuiltInPieces) {
  RebuilderCache whole(*bundle_, *transformer_, 1);
  RebuilderCache pieces(*bundle_, *transformer_, 1, /*max_rows=*/7);
  const LayerPlan plan = Plan(4);
  for (const auto& [layer, kind] : std::vector<std::pair<std::int64_t, CodeKind>>{
           {0, CodeKind::kK}, {2, CodeKind::kV}, {1, CodeKind::kH}}) {
    const LayerCode code = Code(plan, layer, kind);
    const std::vector<float> expected = Rebuilt(whole, plan, code);
    EXPECT_EQ(Rebuilt(pieces, plan, code), expected) << layer;
    EXPECT_NE(expected, std::vector<float>(expected.size(), 0.0f)) << "nothing was written";
  }
}

TEST_F(RebuilderCacheTest, KeepsTheMostRecentlyUsedPlans) {
  RebuilderCache rebuilders(*bundle_, *transformer_, 2);
  const auto code = [this](std::int64_t rank_k) { return Code(Plan(rank_k), 0, CodeKind::kK); };
  const std::vector<float> two = Rebuilt(rebuilders, Plan(2), code(2));
  EXPECT_EQ(rebuilders.size(), 1);
  Rebuilt(rebuilders, Plan(3), code(3));
  EXPECT_EQ(rebuilders.size(), 2);
  Rebuilt(rebuilders, Plan(4), code(4));
  EXPECT_EQ(rebuilders.size(), 2);
  // Whatever was dropped is made again, and is the same.
  EXPECT_EQ(Rebuilt(rebuilders, Plan(2), code(2)), two);
  EXPECT_EQ(rebuilders.size(), 2);
}

TEST_F(RebuilderCacheTest, NativeRangesAreNoPartOfThePlanThatIsKept) {
  RebuilderCache rebuilders(*bundle_, *transformer_, 4);
  ASSERT_TRUE(rebuilders.Prepare(*bundle_->ResolvePlan({.native_tail = 1})).ok());
  ASSERT_TRUE(rebuilders.Prepare(*bundle_->ResolvePlan({.native_tail = 9})).ok());
  EXPECT_EQ(rebuilders.size(), 1);
}

TEST_F(RebuilderCacheTest, PlansThatTheBundleCannotDoAreRefused) {
  RebuilderCache rebuilders(*bundle_, *transformer_, 2);
  LayerPlan plan = Plan(4);
  plan.layers[0].rank_k = 1000;
  EXPECT_FALSE(rebuilders.Prepare(plan).ok());
  EXPECT_EQ(rebuilders.size(), 0);
  EXPECT_TRUE(rebuilders.Prepare(Plan(4)).ok());
}

}  // namespace
}  // namespace scd
