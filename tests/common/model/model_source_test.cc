#include "common/model/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>

#include "tests/support/model_folder.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ModelFolder;
using ::testing::StartsWith;

absl::StatusOr<Model> Open(const std::string& path, const std::string& adapter = "",
                           const std::string& config = "") {
  return OpenModel({.path = path, .adapter = adapter, .config = config});
}

void ExpectRefused(const absl::StatusOr<Model>& model, const std::string& file, const std::string& what) {
  EXPECT_FALSE(model.ok());
  EXPECT_THAT(std::string(model.status().message()), AllOf(StartsWith(file), HasSubstr(what)));
}

// Loads every weight of a model that was opened; a model with damaged numbers may have some that are refused.
void LoadAll(const Model& model, bool damaged = false) {
  const auto load = [&model, damaged](WeightKind kind, std::int64_t layer) {
    auto tensor = model.weights->Load(kind, layer);
    if (damaged && !tensor.ok()) {
      EXPECT_THAT(std::string(tensor.status().message()), HasSubstr("NaN or infinite"));
      return;
    }
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->view().shape(), WeightShape(model.config, kind));
    EXPECT_TRUE(tensor->view().contiguous());
    EXPECT_EQ(std::move(*tensor).TakeFloats().size(),
              static_cast<std::size_t>(WeightShape(model.config, kind).num_elements()));
  };
  for (const WeightKind kind : ModelWeightKinds(model.config)) load(kind, -1);
  for (std::int64_t layer = 0; layer < model.config.num_layers; ++layer) {
    for (const WeightKind kind : LayerWeightKinds(model.config)) load(kind, layer);
  }
}

TEST(ModelSourceTest, OpensEveryTinyModel) {
  const std::map<std::string, std::string> expected = {
      {"tiny-llama", "tiny-llama (llama, 4 layers, 230 k weights)"},
      {"tiny-llama3", "tiny-llama3 (llama, 4 layers, 295 k weights)"},
      {"tiny-mistral", "tiny-mistral (mistral, 4 layers, 295 k weights)"},
      {"tiny-qwen2", "tiny-qwen2 (qwen2, 4 layers, 230 k weights)"},
      {"tiny-qwen3", "tiny-qwen3 (qwen3, 4 layers, 271 k weights)"},
  };
  std::map<Digest, std::string> digests;
  for (const auto& [name, description] : expected) {
    const auto model = Open(testing::TestDataPath(name));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->description, description);
    EXPECT_EQ(model->config.vocab_size, 1024);
    EXPECT_NE(model->tokenizer, nullptr);
    LoadAll(*model);
    EXPECT_TRUE(digests.emplace(model->digest, name).second) << name;
    EXPECT_EQ(Open(testing::TestDataPath(name))->digest, model->digest);
  }
}

// The digest is specified, so that it is the same on every machine and in later versions. The first and the
// last of these were also computed from the specification in Python.
TEST(ModelSourceTest, DigestsAreStable) {
  EXPECT_EQ(Open(testing::TestDataPath("tiny-llama"))->digest.ToHex(), "aa8cf641b06bbb5dcc999d43bae65487");
  EXPECT_EQ(Open(testing::TestDataPath("tiny-llama3"))->digest.ToHex(), "0e0ca664822819a03b17aad047510803");
  EXPECT_EQ(
      Open(testing::TestDataPath("tiny-llama"), testing::TestDataPath("tiny-llama-adapter"))->digest.ToHex(),
      "49d44e59b937ab3d478080ddc8ab3c5f");
}

TEST(ModelSourceTest, DigestFollowsWhatIsComputed) {
  const ModelFolder model(testing::TestDataPath("tiny-llama"));
  const Digest original = Open(model.path())->digest;
  EXPECT_EQ(original, Open(testing::TestDataPath("tiny-llama"))->digest);
  model.EditJson("config.json", [](json& c) { c["eos_token_id"] = 5, c["transformers_version"] = "0"; });
  EXPECT_EQ(Open(model.path())->digest, original);
  model.EditJson("config.json", [](json& c) { c["rope_parameters"]["rope_theta"] = 5000.0; });
  EXPECT_NE(Open(model.path())->digest, original);
  model.EditJson("config.json", [](json& c) { c["rope_parameters"]["rope_theta"] = 100000.0; });
  EXPECT_EQ(Open(model.path())->digest, original);
  std::string bytes = testing::ReadFile(model.File("model.safetensors"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  testing::WriteFile(model.File("model.safetensors"), bytes);
  EXPECT_NE(Open(model.path())->digest, original);
}

TEST(ModelSourceTest, OpensAGgufModelWithItsTokenizerAndTemplate) {
  const auto model = Open(testing::TestDataPath("gguf/tiny-llama.gguf"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->description, "tiny-llama.gguf (llama, 2 layers, 103 k weights)");
  EXPECT_EQ(model->tokenizer->vocab_size(), 320);
  EXPECT_EQ(model->chat_template_source, "{{ messages }}");
  LoadAll(*model);
}

TEST(ModelSourceTest, MergesAnAdapter) {
  const std::string base = testing::TestDataPath("tiny-llama");
  const auto model = Open(base, testing::TestDataPath("tiny-llama-adapter"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->description, "tiny-llama + tiny-llama-adapter (llama, 4 layers, 230 k weights)");
  EXPECT_NE(model->digest, Open(base)->digest);
  EXPECT_EQ(model->config.rope.theta, 100000.0);
  EXPECT_EQ(model->tokenizer->digest(), Open(base)->tokenizer->digest());
  LoadAll(*model);
}

TEST(ModelSourceTest, AnotherConfigMayChangeHowTheModelComputes) {
  const std::string base = testing::TestDataPath("tiny-llama");
  const ModelFolder adapter(testing::TestDataPath("tiny-llama-adapter"), "expert");
  testing::WriteFile(adapter.File("config.json"), testing::ReadFile(base + "/config.json"));
  adapter.EditJson("config.json",
                   [](json& c) { c["rope_parameters"]["rope_theta"] = 10000.0, c["eos_token_id"] = 7; });
  auto model = Open(base, adapter.path());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.rope.theta, 10000.0);
  EXPECT_THAT(model->config.eos_token_ids, ::testing::ElementsAre(7));
  // One that is named explicitly comes before the adapter's.
  model = Open(base, adapter.path(), base + "/config.json");
  EXPECT_EQ(model->config.rope.theta, 100000.0);

  const auto refuse = [&](const std::function<void(json&)>& change, const std::string& what) {
    const ModelFolder other(testing::TestDataPath("tiny-llama"));
    other.EditJson("config.json", change);
    ExpectRefused(Open(base, "", other.File("config.json")), other.File("config.json"), what);
  };
  refuse([](json& c) { c["num_hidden_layers"] = 3; }, "number of layers differs: 4 against 3");
  refuse([](json& c) { c["vocab_size"] = 1025; },
         "vocabulary size is 1025, but the model's weights have 1024");
  refuse([](json& c) { c["intermediate_size"] = 161; }, "intermediate size is 161");
  refuse([](json& c) { c["num_attention_heads"] = 4, c["head_dim"] = 8; }, "number of attention heads is 4");
  refuse([](json& c) { c["attention_bias"] = true; }, "bias of q, k and v");
  refuse([](json& c) { c["tie_word_embeddings"] = false; }, "tie_word_embeddings contradicts");
  refuse([](json& c) { c["architectures"] = {"Qwen2ForCausalLM"}, c["model_type"] = "qwen2"; },
         "architecture differs");
}

TEST(ModelSourceTest, NamesWhatIsNotAModel) {
  testing::TempDir dir;
  ExpectRefused(Open(dir.File("none")), dir.File("none"), "no such model");
  ExpectRefused(Open(dir.path()), dir.File("config.json"), "cannot open");
  ExpectRefused(Open(testing::TestDataPath("tiny-llama/model.safetensors")),
                testing::TestDataPath("tiny-llama/model.safetensors"), "expected a .gguf file or the folder");
  ExpectRefused(Open(testing::TestDataPath("tiny-llama/tokenizer_config.json")), "", "expected a .gguf file");
  const ModelFolder model(testing::TestDataPath("tiny-llama"));
  model.Remove("tokenizer.json");
  EXPECT_FALSE(Open(model.path()).ok());
}

TEST(ModelSourceTest, TellsOfLayersThatAreNotUsed) {
  const ModelFolder model(testing::TestDataPath("tiny-llama"), "short");
  model.EditJson("config.json", [](json& c) { c["num_hidden_layers"] = 3; });
  const auto opened = Open(model.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->description, "short (llama, 3 layers of the 4 in its files, 189 k weights)");
}

TEST(ModelSourceTest, HostileFilesInAGoodModelAreRefusedByName) {
  SCD_SHARED_OR_SKIP(cases, "cases");
  const auto refuse_each = [&cases](const char* kind, const char* target) {
    int seen = 0;
    for (const auto& item : std::filesystem::directory_iterator(cases + "/" + kind)) {
      const ModelFolder model(testing::TestDataPath("tiny-llama"));
      ASSERT_TRUE(Open(model.path()).ok());
      testing::WriteFile(model.File(target), testing::ReadFile(item.path().string()));
      ExpectRefused(Open(model.path()), model.File(target), ": ");
      ++seen;
    }
    EXPECT_GT(seen, 0) << kind;
  };
  refuse_each("config", "config.json");
  refuse_each("safetensors", "model.safetensors");
  for (const auto& item : std::filesystem::directory_iterator(cases + "/gguf")) {
    ExpectRefused(Open(item.path().string()), item.path().string(), ": ");
  }
}

// What the hostile configurations were made from, each by one change, fits the weights that they are put
// beside.
TEST(ModelSourceTest, UnbrokenNeighbourOfTheHostileConfigsLoads) {
  const ModelFolder model(testing::TestDataPath("tiny-llama"));
  testing::WriteFile(model.File("config.json"),
                     R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 8,
      "num_key_value_heads": 2, "vocab_size": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
      "max_position_embeddings": 512, "hidden_act": "silu"})");
  const auto opened = Open(model.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->description, "model (llama, 2 layers of the 4 in its files, 148 k weights)");
  EXPECT_TRUE(opened->config.tie_word_embeddings);
}

// Random damage to every file of a model: an error or a model whose weights load, never a crash.
TEST(ModelSourceTest, SurvivesDamage) {
  std::mt19937 random(20240607);
  int refused = 0;
  const auto damage = [&](const std::string& path, const std::function<absl::StatusOr<Model>()>& open,
                          int rounds) {
    const std::string whole = testing::ReadFile(path);
    const std::size_t header =
        std::min<std::size_t>(whole.size(), 4096);  // where structure is; the rest is numbers
    for (int round = 0; round < rounds; ++round) {
      std::string damaged = whole;
      if (round % 4 == 0) {
        damaged.resize(random() % damaged.size());
      } else {
        for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
          damaged[random() % header] = static_cast<char>(random());
        }
      }
      testing::WriteFile(path, damaged);
      const auto model = open();
      if (model.ok()) {
        LoadAll(*model, /*damaged=*/true);
      } else {
        ++refused;
      }
    }
    testing::WriteFile(path, whole);
    EXPECT_TRUE(open().ok());
  };
  const ModelFolder model(testing::TestDataPath("tiny-llama"));
  const ModelFolder adapter(testing::TestDataPath("tiny-llama-adapter"));
  const ModelFolder gguf(testing::TestDataPath("gguf"));
  const auto open_pair = [&] { return Open(model.path(), adapter.path()); };
  damage(model.File("config.json"), open_pair, 150);
  damage(model.File("model.safetensors"), open_pair, 150);
  damage(adapter.File("adapter_config.json"), open_pair, 150);
  damage(adapter.File("adapter_model.safetensors"), open_pair, 150);
  damage(
      gguf.File("tiny-llama.gguf"), [&] { return Open(gguf.File("tiny-llama.gguf")); }, 400);
  EXPECT_GT(refused, 300);
}

TEST(RealPairTest, OpensBaseAndExpert) {
  SCD_BASE_MODEL_OR_SKIP(path);
  const auto base = Open(path);
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_EQ(base->description, "SmolLM2-135M-Instruct.Q4_1.gguf (llama, 30 layers, 135 M weights)");
  EXPECT_EQ(base->config.rope.theta, 100000.0);
  EXPECT_EQ(base->config.head_dim, 64);
  EXPECT_TRUE(base->config.tie_word_embeddings);
  EXPECT_EQ(base->tokenizer->vocab_size(), 49152);
  EXPECT_THAT(base->chat_template_source, HasSubstr("<|im_start|>"));

  const auto expert = Open(path, testing::ExpertAdapterPath());
  ASSERT_TRUE(expert.ok()) << expert.status();
  EXPECT_EQ(expert->description,
            "SmolLM2-135M-Instruct.Q4_1.gguf + smollm2-135m-expert (llama, 30 layers, 135 M weights)");
  EXPECT_EQ(expert->config.rope.theta, 10000.0);
  EXPECT_EQ(expert->tokenizer->digest(), base->tokenizer->digest());
  EXPECT_NE(expert->digest, base->digest);
  EXPECT_TRUE(base->config.CheckTranslatable(expert->config).ok());
  EXPECT_EQ(base->digest.ToHex(), "1c7fda3aa195253ea0389a93a3f1a2d5");
  EXPECT_EQ(expert->digest.ToHex(), "35b4ede277eb36e0948255aea6fb3bcc");

  // The adapter really changes what is loaded.
  const auto plain = base->weights->Load(WeightKind::kQ, 0);
  const auto merged = expert->weights->Load(WeightKind::kQ, 0);
  ASSERT_TRUE(plain.ok() && merged.ok());
  double change = 0;
  double size = 0;
  for (std::int64_t i = 0; i < plain->view().num_elements(); ++i) {
    const double a = plain->view().as<float>()[i];
    const double b = merged->view().as<float>()[i];
    change += (b - a) * (b - a);
    size += a * a;
  }
  EXPECT_GT(change, 1e-5 * size);
  EXPECT_LT(change, size);
}

}  // namespace
}  // namespace scd
