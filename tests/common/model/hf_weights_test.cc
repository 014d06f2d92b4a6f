#include "common/model/hf_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "common/io/safetensors.h"
#include "common/model/hf_names.h"
#include "tests/support/model_folder.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ModelFolder;
using ::testing::StartsWith;

constexpr char kFile[] = "model.safetensors";
constexpr char kTensor[] = "model.norm.weight";
constexpr char kIndex[] = "model.safetensors.index.json";

absl::StatusOr<HfWeights> Open(const std::string& folder) {
  auto config = LoadHfConfig(folder + "/config.json");
  if (!config.ok()) return config.status();
  return OpenHfWeights(folder, *config);
}

void ExpectRefused(const std::string& folder, const std::string& file, const std::string& what) {
  const absl::Status status = Open(folder).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith(file.empty() ? folder : folder + "/" + file), HasSubstr(what)));
}

// Rewrites the folder's weights with one more tensor, or one tensor less.
void Rewrite(const ModelFolder& model, const std::vector<NamedTensor>& more, const std::string& less = "") {
  const auto file = SafetensorsFile::Open(model.File(kFile)).value();
  std::vector<NamedTensor> tensors = more;
  for (const auto& [name, view] : file->tensors()) {
    if (name != less) tensors.push_back({name, view});
  }
  ASSERT_TRUE(WriteSafetensors(model.File("new"), tensors).ok());
  std::filesystem::rename(model.File("new"), model.File(kFile));
}

class TinyModelWeightsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyModelWeightsTest, EveryWeightLoadsAndIsWhatIsStored) {
  const std::string folder = testing::TestDataPath(GetParam());
  const auto config = LoadHfConfig(folder + "/config.json");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto opened = OpenHfWeights(folder, *config);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->tied, config->model.tie_word_embeddings);
  EXPECT_EQ(opened->num_unused_layers, 0);
  const auto expect_weight = [&](WeightKind kind, std::int64_t layer) {
    const auto tensor = opened->weights->Load(kind, layer);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->view().shape(), WeightShape(config->model, kind));
    const auto stored = opened->weights->Stored(kind, layer);
    ASSERT_TRUE(stored.ok()) << stored.status();
    EXPECT_EQ(stored->bytes.data(), tensor->view().data());
    EXPECT_EQ(stored->type, DTypeName(tensor->view().dtype()));
  };
  for (const WeightKind kind : ModelWeightKinds(config->model)) expect_weight(kind, -1);
  expect_weight(WeightKind::kLmHead, -1);
  for (std::int64_t layer = 0; layer < config->model.num_layers; ++layer) {
    for (const WeightKind kind : LayerWeightKinds(config->model)) expect_weight(kind, layer);
  }
  EXPECT_EQ(opened->weights->Load(WeightKind::kQ, config->model.num_layers).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(opened->weights->Load(WeightKind::kGateBias, 0).status().code(), absl::StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Models, TinyModelWeightsTest,
                         ::testing::Values("tiny-llama", "tiny-llama3", "tiny-mistral", "tiny-qwen2",
                                           "tiny-qwen3"));

TEST(HfWeightsTest, TiesWhereNothingSaysOtherwise) {
  const ModelFolder model(testing::TestDataPath("tiny-llama"));
  model.EditJson("config.json", [](json& c) { c.erase("tie_word_embeddings"); });
  EXPECT_TRUE(Open(model.path())->tied);
  model.EditJson("config.json", [](json& c) { c["tie_word_embeddings"] = false; });
  ExpectRefused(model.path(), kFile, "lm_head.weight: missing, although the config asks for it");
}

TEST(HfWeightsTest, TellsOfLayersThatAreNotUsed) {
  const ModelFolder model(testing::TestDataPath("tiny-llama"));
  model.EditJson("config.json", [](json& c) { c["num_hidden_layers"] = 3; });
  EXPECT_EQ(Open(model.path())->num_unused_layers, 1);
  model.EditJson("config.json", [](json& c) { c["num_hidden_layers"] = 5; });
  ExpectRefused(model.path(), kFile, "model.layers.4.input_layernorm.weight: missing");
}

TEST(HfWeightsTest, RefusesOtherShapesTypesAndTensors) {
  const std::string source = testing::TestDataPath("tiny-llama");
  const std::vector<float> zeros(4096, 0);
  const std::vector<std::int32_t> ints(4096, 0);
  {
    const ModelFolder model(source);
    model.EditJson("config.json", [](json& c) { c["intermediate_size"] = 128; });
    ExpectRefused(
        model.path(), kFile,
        "mlp.gate_proj.weight: expected f32, f16 or bf16 [128, 64] by the config, got bf16 [160, 64]");
  }
  {
    const ModelFolder model(source);
    Rewrite(model, {{"model.norm.weight", ConstTensorView(ints.data(), DType::kI32, {64})}},
            "model.norm.weight");
    ExpectRefused(model.path(), kFile,
                  "model.norm.weight: expected f32, f16 or bf16 [64] by the config, got i32 [64]");
  }
  {
    const ModelFolder model(source);
    Rewrite(model,
            {{"model.layers.0.self_attn.q_proj.bias", ConstTensorView(zeros.data(), DType::kF32, {64})}});
    ExpectRefused(model.path(), kFile, "self_attn.q_proj.bias: the config asks for no such tensor");
  }
  {
    const ModelFolder model(source);  // what may be left out without changing the model
    Rewrite(model, {{"model.layers.0.self_attn.rotary_emb.inv_freq",
                     ConstTensorView(zeros.data(), DType::kF32, {4})},
                    {"lm_head.weight", ConstTensorView(zeros.data(), DType::kF32, {64, 64})}});
    EXPECT_TRUE(Open(model.path()).ok());
  }
  {
    const ModelFolder model(source);
    Rewrite(model, {}, "model.layers.2.mlp.up_proj.weight");
    ExpectRefused(model.path(), kFile, "model.layers.2.mlp.up_proj.weight: missing");
  }
}

TEST(HfWeightsTest, NumbersMustBeFinite) {
  const ModelFolder model(testing::TestDataPath("tiny-llama"));
  std::vector<float> values(64, 1);
  values[7] = std::nanf("");
  Rewrite(model, {{kTensor, ConstTensorView(values.data(), DType::kF32, {64})}}, kTensor);
  const auto opened = Open(model.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(opened->weights->Load(WeightKind::kQ, 0).ok());
  EXPECT_EQ(opened->weights->Load(WeightKind::kFinalNorm, -1).status().message(),
            model.File(kFile) + ": model.norm.weight: holds a number that is NaN or infinite");
}

TEST(HfWeightsTest, ShardsMustBeWholeAndStayInTheFolder) {
  const std::string source = testing::TestDataPath("tiny-llama3");
  for (const json& bad :
       {json("../model-00001-of-00006.safetensors"), json("/etc/passwd"), json(".."), json(""), json(3)}) {
    const ModelFolder model(source);
    model.EditJson(kIndex, [&bad](json& index) { index["weight_map"][kTensor] = bad; });
    ExpectRefused(model.path(), kIndex, "weight_map: model.norm.weight: expected the name of a file");
  }
  const ModelFolder model(source);
  model.EditJson(kIndex,
                 [](json& index) { index["weight_map"][kTensor] = "model-00001-of-00006.safetensors"; });
  ExpectRefused(model.path(), "model-00001-of-00006.safetensors", "model.norm.weight: no such tensor");
  model.EditJson(kIndex, [](json& index) { index["weight_map"].erase(kTensor); });
  ExpectRefused(model.path(), kIndex, "model.norm.weight: missing");
  model.Remove("model-00002-of-00006.safetensors");
  ExpectRefused(model.path(), "model-00002-of-00006.safetensors", "cannot open");
  model.EditJson(kIndex, [](json& index) { index.erase("weight_map"); });
  ExpectRefused(model.path(), kIndex, "weight_map: missing");
  model.Remove(kIndex);
  ExpectRefused(model.path(), "", "holds neither model.safetensors nor model.safetensors.index.json");
}

}  // namespace
}  // namespace scd
