#include "common/model/peft_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "common/model/hf_weights.h"
#include "tests/support/model_folder.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ModelFolder;
using ::testing::StartsWith;

constexpr char kFile[] = "adapter_model.safetensors";
constexpr char kConfig[] = "adapter_config.json";

struct Base {
  HfConfig config;
  std::unique_ptr<StoredWeights> weights;
};

Base OpenBase(const std::string& name) {
  const std::string folder = testing::TestDataPath(name);
  Base base;
  base.config = LoadHfConfig(folder + "/config.json").value();
  base.weights = std::move(OpenHfWeights(folder, base.config).value().weights);
  return base;
}

class PeftAdapterTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<PeftAdapter>> Open() {
    return PeftAdapter::Open(folder_.path(), base_.config.model);
  }
  void ExpectRefused(const char* file, const std::string& what) {
    const absl::Status status = Open().status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), AllOf(StartsWith(folder_.File(file) + ": "), HasSubstr(what)));
  }
  // The adapter's tensors, to be written back with changes.
  std::vector<NamedTensor> Tensors() {
    original_ =
        SafetensorsFile::Open(testing::TestDataPath("tiny-llama-adapter/adapter_model.safetensors")).value();
    std::vector<NamedTensor> out;
    for (const auto& [name, view] : original_->tensors()) out.push_back({name, view});
    return out;
  }
  void Write(const std::vector<NamedTensor>& tensors) {
    ASSERT_TRUE(WriteSafetensors(folder_.File("new"), tensors).ok());
    std::filesystem::rename(folder_.File("new"), folder_.File(kFile));
  }

  const Base base_ = OpenBase("tiny-llama");
  const ModelFolder folder_{testing::TestDataPath("tiny-llama-adapter")};
  std::unique_ptr<SafetensorsFile> original_;
  const std::vector<float> values_ = std::vector<float>(1024 * 64, 0.5F);
};

// Expected values were made with numpy by tests/common/model/make_peft_fixtures.py.
TEST_F(PeftAdapterTest, MergesAsPeftDoes) {
  auto adapter = Open();
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_FALSE((*adapter)->unties_embeddings());
  const auto expected = SafetensorsFile::Open(testing::TestDataPath("tiny-llama-adapter/merged.safetensors"));
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto weights = MergedWeights(OpenBase("tiny-llama").weights, *std::move(adapter));
  const auto expect_equal = [&](WeightKind kind, std::int64_t layer, const std::string& name) {
    const auto wanted = (*expected)->Get(name);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    const auto got = weights->Load(kind, layer);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->view().dtype(), DType::kF32);
    for (std::int64_t i = 0; i < wanted->num_elements(); ++i) {
      ASSERT_NEAR(got->view().as<float>()[i], wanted->as<float>()[i], 1e-6) << name << " element " << i;
    }
  };
  expect_equal(WeightKind::kQ, 0, "model.layers.0.self_attn.q_proj.weight");
  expect_equal(WeightKind::kQ, 3, "model.layers.3.self_attn.q_proj.weight");
  expect_equal(WeightKind::kV, 1, "model.layers.1.self_attn.v_proj.weight");
  expect_equal(WeightKind::kDown, 0, "model.layers.0.mlp.down_proj.weight");
  expect_equal(WeightKind::kDown, 3, "model.layers.3.mlp.down_proj.weight");
  expect_equal(WeightKind::kFinalNorm, -1, "model.norm.weight");

  // Layer 2 and k_proj are not adapted: the base's own tensor, in its own type.
  for (const auto& [kind, layer] : {std::pair(WeightKind::kQ, 2), std::pair(WeightKind::kK, 0)}) {
    const auto same = weights->Load(kind, layer);
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_EQ(same->view().dtype(), DType::kBF16);
    const auto stored = base_.weights->Stored(kind, layer).value();
    EXPECT_EQ(std::memcmp(same->view().data(), stored.bytes.data(), stored.bytes.size()), 0);
  }
}

// What is given apart is what Merge adds.
TEST_F(PeftAdapterTest, LowRankPartsAreWhatMergeAdds) {
  const auto adapter = Open();
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  int num_adapted = 0;
  for (const WeightKind kind : LayerWeightKinds(base_.config.model)) {
    SCOPED_TRACE(WeightKindName(kind));
    const Shape shape = WeightShape(base_.config.model, kind);
    std::vector<float> expected = std::move(*(*adapter)->Merge(*base_.weights, kind, 0)).TakeFloats();
    std::vector<float> values = std::move(*base_.weights->Load(kind, 0)).TakeFloats();
    if (const auto parts = (*adapter)->LowRank(kind, 0)) {
      ++num_adapted;
      ASSERT_EQ(static_cast<std::int64_t>(parts->a.size()), parts->rank * shape[1]);
      ASSERT_EQ(static_cast<std::int64_t>(parts->b.size()), shape[0] * parts->rank);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t row = i / static_cast<std::size_t>(shape[1]);
        const std::size_t column = i % static_cast<std::size_t>(shape[1]);
        for (std::int64_t k = 0; k < parts->rank; ++k) {
          values[i] += parts->b[row * static_cast<std::size_t>(parts->rank) + static_cast<std::size_t>(k)] *
                       parts->a[static_cast<std::size_t>(k * shape[1]) + column];
        }
      }
    }
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 1e-6) << i;
  }
  EXPECT_GT(num_adapted, 0);
}

TEST_F(PeftAdapterTest, EveryTargetMustExistAndHaveItsTensors) {
  auto tensors = Tensors();
  const std::string removed = tensors.front().name;
  tensors.erase(tensors.begin());
  Write(tensors);
  ExpectRefused(kFile, removed + ": no such tensor");

  folder_.EditJson(kConfig, [](json& c) { c["target_modules"].push_back("c_attn"); });
  ExpectRefused(kFile, removed);
  Write(Tensors());
  ExpectRefused(kConfig, "target_modules: \"c_attn\" is no module of the base model");
  folder_.EditJson(kConfig,
                   [](json& c) { c["target_modules"] = ".*c_attn", c.erase("layers_to_transform"); });
  ExpectRefused(kConfig, "target_modules: no module of the base model matches");
}

TEST_F(PeftAdapterTest, EveryTensorMustBeUsed) {
  auto tensors = Tensors();
  tensors.push_back({"base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight",
                     ConstTensorView(values_.data(), DType::kF32, {4, 64})});
  Write(tensors);
  ExpectRefused(
      kFile,
      "layers.2.self_attn.q_proj.lora_A.weight: is not a tensor that adapter_config.json accounts for");
  tensors.back().name = "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector";
  Write(tensors);
  ExpectRefused(kFile, "lora_magnitude_vector: is not a tensor");
}

TEST_F(PeftAdapterTest, ShapesMustFit) {
  folder_.EditJson(kConfig, [](json& c) { c["r"] = 5; });
  ExpectRefused(kFile, "expected f32, f16 or bf16 [5, 64], got f32 [4, 64]");
  folder_.EditJson(kConfig, [](json& c) { c["r"] = 4, c["layers_to_transform"] = {0, 1, 3, 9}; });
  ExpectRefused(kConfig, "layers_to_transform: the base model has no layer 9");
  const ModelConfig other = OpenBase("tiny-qwen3").config.model;  // another width of heads
  const absl::Status status = PeftAdapter::Open(testing::TestDataPath("tiny-llama-adapter"), other).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected f32, f16 or bf16 ["));
}

TEST_F(PeftAdapterTest, NumbersMustBeFinite) {
  auto tensors = Tensors();
  std::vector<float> values(static_cast<std::size_t>(tensors.front().view.num_elements()), 1);
  values.back() = INFINITY;
  tensors.front().view = ConstTensorView(values.data(), DType::kF32, tensors.front().view.shape());
  Write(tensors);
  ExpectRefused(kFile, tensors.front().name + ": holds a number that is NaN or infinite");
}

TEST_F(PeftAdapterTest, ExcludedModulesNeedNoTensors) {
  std::vector<NamedTensor> tensors;
  for (const NamedTensor& tensor : Tensors()) {
    if (tensor.name.find("v_proj") == std::string::npos) tensors.push_back(tensor);
  }
  Write(tensors);
  ExpectRefused(kFile, "v_proj.lora_A.weight: no such tensor");
  for (const json& excluded : {json({"v_proj"}), json(".*v_proj")}) {
    folder_.EditJson(kConfig, [&excluded](json& c) { c["exclude_modules"] = excluded; });
    EXPECT_TRUE(Open().ok()) << Open().status();
  }
}

TEST_F(PeftAdapterTest, SavedModules) {
  const auto save = [this](const json& modules, const std::vector<std::string>& names) {
    auto tensors = Tensors();
    for (const std::string& name : names) {
      tensors.push_back(
          {"base_model.model." + name, ConstTensorView(values_.data(), DType::kF32, {1024, 64})});
    }
    Write(tensors);
    folder_.EditJson(kConfig, [&modules](json& c) { c["modules_to_save"] = modules; });
  };
  const std::string embedding = "model.embed_tokens.weight";
  const std::string head = "lm_head.weight";
  save({"model.norm", "embed_tokens", "lm_head"}, {embedding, head});
  auto adapter = Open();
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_TRUE((*adapter)->unties_embeddings());
  EXPECT_EQ(*(*adapter)->Merge(*base_.weights, WeightKind::kLmHead, -1)->view().as<float>(), 0.5F);

  save({"model.norm", "embed_tokens"}, {embedding});
  ExpectRefused(kConfig, "an adapter that brings only one of them is not supported");
  save({"model.norm", "q_proj"}, {});
  ExpectRefused(kConfig, "modules_to_save: \"q_proj\" is not supported");
  save({"model.norm", "score"}, {});
  ExpectRefused(kConfig, "modules_to_save: \"score\" is not supported");
  save({"model.norm", "input_layernorm"}, {});
  ExpectRefused(kFile, "input_layernorm.weight: no such tensor");
  folder_.EditJson(kConfig,
                   [](json& c) { c["target_modules"] = {"embed_tokens"}, c.erase("layers_to_transform"); });
  ExpectRefused(kConfig, "model.embed_tokens: an adapter on the embeddings is not supported");
}

TEST_F(PeftAdapterTest, DigestFollowsTensorsAlphaAndRanks) {
  const auto digest = [this] {
    DigestBuilder builder("x");
    const auto adapter = Open();
    EXPECT_TRUE(adapter.ok()) << adapter.status();
    if (adapter.ok()) (*adapter)->AddTo(builder);
    return builder.Finish();
  };
  const Digest original = digest();
  EXPECT_EQ(digest(), original);
  folder_.EditJson(kConfig,
                   [](json& c) { c["lora_dropout"] = 0.5, c["base_model_name_or_path"] = "elsewhere"; });
  EXPECT_EQ(digest(), original);
  folder_.EditJson(kConfig, [](json& c) { c["lora_alpha"] = 9; });
  EXPECT_NE(digest(), original);
  folder_.EditJson(kConfig, [](json& c) { c["lora_alpha"] = 8, c["use_rslora"] = false; });
  EXPECT_NE(digest(), original);
  folder_.EditJson(kConfig, [](json& c) { c["use_rslora"] = true; });
  EXPECT_EQ(digest(), original);
  std::string bytes = testing::ReadFile(folder_.File(kFile));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  testing::WriteFile(folder_.File(kFile), bytes);
  EXPECT_NE(digest(), original);
}

TEST_F(PeftAdapterTest, HostileTensorFilesAreRefusedByName) {
  SCD_SHARED_OR_SKIP(cases, "cases/safetensors");
  int seen = 0;
  for (const auto& item : std::filesystem::directory_iterator(cases)) {
    testing::WriteFile(folder_.File(kFile), testing::ReadFile(item.path().string()));
    ExpectRefused(kFile, "");
    ++seen;
  }
  EXPECT_GT(seen, 0);
  folder_.Remove(kFile);
  ExpectRefused(kFile, "cannot open");
}

}  // namespace
}  // namespace scd
