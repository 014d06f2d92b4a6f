#include "common/model/weight_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "common/model/hf_names.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

ModelConfig Config() {
  ModelConfig config;
  config.num_layers = 2;
  config.hidden_size = 8;
  config.intermediate_size = 12;
  config.num_heads = 3;
  config.num_kv_heads = 1;
  config.head_dim = 4;
  config.vocab_size = 20;
  return config;
}

TEST(WeightStoreTest, KindsFollowTheConfig) {
  ModelConfig config = Config();
  EXPECT_THAT(ModelWeightKinds(config),
              ElementsAre(WeightKind::kEmbedding, WeightKind::kFinalNorm, WeightKind::kLmHead));
  config.tie_word_embeddings = true;
  EXPECT_THAT(ModelWeightKinds(config), SizeIs(2));
  EXPECT_THAT(LayerWeightKinds(config), SizeIs(9));
  config.qkv_bias = config.o_bias = config.mlp_bias = config.qk_norm = true;
  const auto all = LayerWeightKinds(config);
  EXPECT_THAT(all, SizeIs(18));
  std::set<std::string> names;
  for (const WeightKind kind : all) names.insert(std::string(WeightKindName(kind)));
  EXPECT_THAT(names, SizeIs(18));
}

TEST(WeightStoreTest, ShapesFollowTheConfig) {
  const ModelConfig config = Config();
  EXPECT_EQ(WeightShape(config, WeightKind::kLmHead), Shape({20, 8}));
  EXPECT_EQ(WeightShape(config, WeightKind::kQ), Shape({12, 8}));
  EXPECT_EQ(WeightShape(config, WeightKind::kV), Shape({4, 8}));
  EXPECT_EQ(WeightShape(config, WeightKind::kO), Shape({8, 12}));
  EXPECT_EQ(WeightShape(config, WeightKind::kUp), Shape({12, 8}));
  EXPECT_EQ(WeightShape(config, WeightKind::kDown), Shape({8, 12}));
  EXPECT_EQ(WeightShape(config, WeightKind::kQBias), Shape({12}));
  EXPECT_EQ(WeightShape(config, WeightKind::kKNorm), Shape({4}));
  EXPECT_EQ(WeightShape(config, WeightKind::kDownBias), Shape({8}));
}

TEST(HostTensorTest, TakesFloatsOfEveryFloatType) {
  const std::vector<std::uint16_t> bf16 = {0x3f80, 0xc000};
  const std::vector<std::uint16_t> f16 = {0x3c00, 0xc000};
  const std::vector<float> f32 = {1, -2};
  EXPECT_THAT(HostTensor(ConstTensorView(bf16.data(), DType::kBF16, {2})).TakeFloats(), ElementsAre(1, -2));
  EXPECT_THAT(HostTensor(ConstTensorView(f16.data(), DType::kF16, {2})).TakeFloats(), ElementsAre(1, -2));
  EXPECT_THAT(HostTensor(ConstTensorView(f32.data(), DType::kF32, {2})).TakeFloats(), ElementsAre(1, -2));
  HostTensor owned(std::vector<float>{1, -2}, {2});
  const float* where = owned.view().as<float>();
  const std::vector<float> taken = std::move(owned).TakeFloats();
  EXPECT_EQ(taken.data(), where);
}

TEST(HfNamesTest, NamesAndLayers) {
  EXPECT_EQ(HfWeightName(WeightKind::kQ, 3), "model.layers.3.self_attn.q_proj.weight");
  EXPECT_EQ(HfWeightName(WeightKind::kDownBias, 0), "model.layers.0.mlp.down_proj.bias");
  EXPECT_EQ(HfWeightName(WeightKind::kEmbedding, -1), "model.embed_tokens.weight");
  EXPECT_EQ(HfWeightName(WeightKind::kLmHead, -1), "lm_head.weight");
  EXPECT_EQ(HfLayerOf("model.layers.12.x.weight"), 12);
  EXPECT_EQ(HfLayerOf("model.layers.12"), -1);
  EXPECT_EQ(HfLayerOf("model.layers.x.y"), -1);
  EXPECT_EQ(HfLayerOf("model.layers.-1.y"), -1);
  EXPECT_EQ(HfLayerOf("model.layers.99999999999999999999.y"), -1);
  EXPECT_EQ(HfLayerOf("lm_head.weight"), -1);
}

}  // namespace
}  // namespace scd
