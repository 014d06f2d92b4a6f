#include "common/model/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class HfConfigTest : public ::testing::Test {
 protected:
  static json Llama() {
    return json::parse(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
        "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2,
        "vocab_size": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 512,
        "hidden_act": "silu"})");
  }
  static json Of(const std::string& class_name, const std::string& type) {
    json config = Llama();
    config["architectures"] = {class_name};
    config["model_type"] = type;
    return config;
  }

  absl::StatusOr<HfConfig> Load(const json& config) { return LoadText(config.dump()); }
  absl::StatusOr<HfConfig> LoadText(const std::string& text) {
    testing::WriteFile(path_, text);
    return LoadHfConfig(path_);
  }
  ModelConfig Model(const json& config) {
    const auto loaded = Load(config);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? loaded->model : ModelConfig();
  }
  void ExpectRefused(const json& config, const std::string& what) {
    const absl::Status status = Load(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << config;
    EXPECT_THAT(std::string(status.message()), AllOf(StartsWith(path_ + ": "), HasSubstr(what)));
  }

  testing::TempDir dir_;
  const std::string path_ = dir_.File("config.json");
};

TEST_F(HfConfigTest, ReadsLlama) {
  const ModelConfig model = Model(Llama());
  EXPECT_EQ(model.architecture, Architecture::kLlama);
  EXPECT_EQ(model.num_layers, 2);
  EXPECT_EQ(model.hidden_size, 64);
  EXPECT_EQ(model.intermediate_size, 160);
  EXPECT_EQ(model.num_heads, 8);
  EXPECT_EQ(model.num_kv_heads, 2);
  EXPECT_EQ(model.head_dim, 8);
  EXPECT_EQ(model.vocab_size, 1024);
  EXPECT_EQ(model.max_positions, 512);
  EXPECT_EQ(model.rms_norm_eps, 1e-5);
  EXPECT_EQ(model.rope, RopeConfig());
  EXPECT_THAT(model.sliding_window, IsEmpty());
  EXPECT_FALSE(model.tie_word_embeddings);
  EXPECT_FALSE(model.qkv_bias || model.o_bias || model.mlp_bias || model.qk_norm);
  EXPECT_EQ(model.bos_token_id, std::nullopt);
  EXPECT_THAT(model.eos_token_ids, IsEmpty());
}

TEST_F(HfConfigTest, DefaultsAreThoseOfTransformers) {
  json config = Llama();
  for (const char* key : {"num_key_value_heads", "rms_norm_eps", "rope_theta", "hidden_act"})
    config.erase(key);
  const ModelConfig model = Model(config);
  EXPECT_EQ(model.num_kv_heads, 8);
  EXPECT_EQ(model.rms_norm_eps, 1e-6);
  EXPECT_EQ(model.rope.theta, 10000.0);
  EXPECT_FALSE(Load(config)->states_tied);
  config["tie_word_embeddings"] = true;
  EXPECT_TRUE(Load(config)->states_tied);
  EXPECT_TRUE(Model(config).tie_word_embeddings);

  config = Of("Qwen3ForCausalLM", "qwen3");
  EXPECT_EQ(Model(config).head_dim, 128);
  config["head_dim"] = nullptr;
  EXPECT_EQ(Model(config).head_dim, 8);
  config.erase("num_key_value_heads");
  ExpectRefused(config, "num_key_value_heads: missing");
  config["num_key_value_heads"] = nullptr;
  EXPECT_EQ(Model(config).num_kv_heads, 8);
}

TEST_F(HfConfigTest, ArchitectureByClassOrType) {
  json config = Of("MistralForCausalLM", "mistral");
  EXPECT_EQ(Model(config).architecture, Architecture::kMistral);
  config.erase("architectures");
  EXPECT_EQ(Model(config).architecture, Architecture::kMistral);
  config = Of("Qwen2ForCausalLM", "qwen2");
  config.erase("model_type");
  EXPECT_EQ(Model(config).architecture, Architecture::kQwen2);
  ExpectRefused(Of("Qwen2ForCausalLM", "llama"), "model_type: \"llama\" contradicts");
  ExpectRefused(Of("BambooForCausalLM", "llama"), "architectures: \"BambooForCausalLM\" is not supported");
  config.erase("architectures");
  ExpectRefused(config, "architectures: missing");
  config["model_type"] = "bamboo";
  ExpectRefused(config, "model_type: \"bamboo\" is not supported");
  config["architectures"] = "LlamaForCausalLM";
  ExpectRefused(config, "architectures: expected an array of one name");
}

TEST_F(HfConfigTest, BiasesAndNorms) {
  json config = Llama();
  config["attention_bias"] = true;
  config["mlp_bias"] = true;
  ModelConfig model = Model(config);
  EXPECT_TRUE(model.qkv_bias && model.o_bias && model.mlp_bias);
  model = Model(Of("Qwen2ForCausalLM", "qwen2"));
  EXPECT_TRUE(model.qkv_bias);
  EXPECT_FALSE(model.o_bias || model.mlp_bias || model.qk_norm);
  config = Of("Qwen3ForCausalLM", "qwen3");
  EXPECT_TRUE(Model(config).qk_norm);
  EXPECT_FALSE(Model(config).qkv_bias);
  config["attention_bias"] = true;
  EXPECT_TRUE(Model(config).qkv_bias && Model(config).o_bias);
  config["mlp_bias"] = true;
  ExpectRefused(config, "mlp_bias");
  config = Of("MistralForCausalLM", "mistral");
  config["attention_bias"] = true;
  ExpectRefused(config, "attention_bias");
}

TEST_F(HfConfigTest, RopeInTheOldSpelling) {
  json config = Llama();
  config["rope_theta"] = 500000;
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  RopeConfig rope = Model(config).rope;
  EXPECT_EQ(rope.type, RopeType::kLinear);
  EXPECT_EQ(rope.theta, 500000.0);
  EXPECT_EQ(rope.factor, 2.0);

  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 64}};
  rope = Model(config).rope;
  EXPECT_EQ(rope.type, RopeType::kLlama3);
  EXPECT_EQ(rope.factor, 8.0);
  EXPECT_EQ(rope.original_max_positions, 64);

  config["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128},
                            {"beta_fast", 0}, {"mscale", 0.5}, {"truncate", false}};
  rope = Model(config).rope;
  EXPECT_EQ(rope.type, RopeType::kYarn);
  EXPECT_EQ(rope.original_max_positions, 128);
  EXPECT_EQ(rope.beta_fast, 32.0);
  EXPECT_EQ(rope.mscale, 0.5);
  EXPECT_EQ(rope.attention_factor, std::nullopt);
  EXPECT_FALSE(rope.truncate);

  // Without a length of its own yarn counts from the model's; a null factor is the ratio of the two lengths.
  config["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}};
  EXPECT_EQ(Model(config).rope.original_max_positions, 512);
  config["rope_scaling"] = {{"type", "yarn"}, {"factor", nullptr}, {"original_max_position_embeddings", 128}};
  EXPECT_EQ(Model(config).rope.factor, 4.0);
  config["original_max_position_embeddings"] = 256;
  EXPECT_EQ(Model(config).rope.original_max_positions, 256);
}

TEST_F(HfConfigTest, RopeInTheNewSpelling) {
  json config = Llama();
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_theta", 1e6}, {"rope_type", "default"}};
  EXPECT_EQ(Model(config).rope.theta, 1e6);
  config["rope_parameters"] = {{"rope_theta", 1e6}, {"rope_type", "linear"}, {"factor", 3.0}};
  EXPECT_EQ(Model(config).rope.factor, 3.0);
  // Both spellings may stand in one file where they say the same.
  config["rope_theta"] = 1e6;
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 3.0}};
  EXPECT_EQ(Model(config).rope.factor, 3.0);
  config["rope_scaling"]["factor"] = 2.0;
  ExpectRefused(config, "rope_parameters: contradicts");
  config["rope_scaling"] = nullptr;
  EXPECT_EQ(Model(config).rope.factor, 3.0);
  config["rope_scaling"] = json::object();
  EXPECT_EQ(Model(config).rope.factor, 3.0);
}

TEST_F(HfConfigTest, RefusesRopeThatItDoesNotCompute) {
  const auto with_scaling = [](json scaling) {
    json config = Llama();
    config["rope_scaling"] = std::move(scaling);
    return config;
  };
  ExpectRefused(with_scaling({{"type", "dynamic"}, {"factor", 2.0}}),
                "rope_scaling: type: \"dynamic\" is not supported");
  ExpectRefused(with_scaling({{"rope_type", "longrope"}}), "rope_type: \"longrope\"");
  ExpectRefused(with_scaling({{"rope_type", "linear"}, {"type", "yarn"}, {"factor", 2.0}}),
                "contradicts type");
  ExpectRefused(with_scaling({{"type", "linear"}}), "rope_scaling: factor: missing");
  ExpectRefused(with_scaling({{"type", "linear"}, {"factor", 0.5}}), "factor: expected a number in [1,");
  ExpectRefused(with_scaling({{"rope_type", "llama3"}, {"factor", 8.0}, {"high_freq_factor", 4.0}}),
                "low_freq_factor: missing");
  ExpectRefused(with_scaling({{"rope_type", "default"}, {"factor", 2.0}}), "factor: is given although");
  ExpectRefused(with_scaling({{"type", "default"}, {"mrope_section", {1, 2}}}), "mrope_section");
  ExpectRefused(with_scaling({{"full_attention", {{"rope_type", "default"}}}}), "full_attention");
  ExpectRefused(with_scaling("linear"), "rope_scaling: expected a JSON object");
  json config = Llama();
  config["partial_rotary_factor"] = 0.5;
  ExpectRefused(config, "partial_rotary_factor");
  config["partial_rotary_factor"] = 1.0;
  EXPECT_EQ(Model(config).rope, RopeConfig());
}

TEST_F(HfConfigTest, SlidingWindowOfMistral) {
  json config = Of("MistralForCausalLM", "mistral");
  EXPECT_THAT(Model(config).sliding_window, ElementsAre(4096, 4096));
  config["sliding_window"] = nullptr;
  EXPECT_THAT(Model(config).sliding_window, IsEmpty());
  config["sliding_window"] = 16;
  EXPECT_THAT(Model(config).sliding_window, ElementsAre(16, 16));
  config["layer_types"] = {"full_attention", "sliding_attention"};
  ExpectRefused(config, "layer_types");
  config = Llama();
  config["sliding_window"] = 16;
  ExpectRefused(config, "sliding_window: is not part of LlamaForCausalLM");
}

TEST_F(HfConfigTest, SlidingWindowOfQwen) {
  for (const auto& [name, type] :
       {std::pair("Qwen2ForCausalLM", "qwen2"), std::pair("Qwen3ForCausalLM", "qwen3")}) {
    json config = Of(name, type);
    config["num_hidden_layers"] = 4;
    config["sliding_window"] = 16;
    EXPECT_THAT(Model(config).sliding_window, IsEmpty());  // not in use by default
    config["use_sliding_window"] = true;
    EXPECT_THAT(Model(config).sliding_window, IsEmpty());  // by default from layer 28 on
    config["max_window_layers"] = 3;
    EXPECT_THAT(Model(config).sliding_window, ElementsAre(0, 0, 0, 16));
    config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
    EXPECT_THAT(Model(config).sliding_window, ElementsAre(16, 0, 16, 0));
    config["layer_types"] = {"sliding_attention"};
    ExpectRefused(config, "layer_types: expected an array of 4 names");
    config["layer_types"] = {"full_attention", "full_attention", "full_attention", "linear_attention"};
    ExpectRefused(config, "layer_types: entry 3");
    config["layer_types"] = {"full_attention", "full_attention", "full_attention", "sliding_attention"};
    config["use_sliding_window"] = false;
    ExpectRefused(config, "layer_types: layer 3 slides but no window is in use");
  }
}

TEST_F(HfConfigTest, EndOfSequenceIds) {
  json config = Llama();
  config["bos_token_id"] = 1;
  config["eos_token_id"] = 2;
  EXPECT_EQ(Model(config).bos_token_id, 1);
  EXPECT_THAT(Model(config).eos_token_ids, ElementsAre(2));
  config["eos_token_id"] = {2, 5};
  EXPECT_THAT(Model(config).eos_token_ids, ElementsAre(2, 5));
  testing::WriteFile(dir_.File("generation_config.json"), R"({"eos_token_id": [7, 8]})");
  EXPECT_THAT(Model(config).eos_token_ids, ElementsAre(7, 8));
  testing::WriteFile(dir_.File("generation_config.json"), R"({"eos_token_id": null})");
  EXPECT_THAT(Model(config).eos_token_ids, ElementsAre(2, 5));
  testing::WriteFile(dir_.File("generation_config.json"), "{");
  EXPECT_THAT(std::string(Load(config).status().message()), HasSubstr("generation_config.json"));
  std::filesystem::remove(dir_.File("generation_config.json"));
  config["eos_token_id"] = -1;
  ExpectRefused(config, "eos_token_id: expected a token id");
  config["eos_token_id"] = {2, "x"};
  ExpectRefused(config, "eos_token_id: expected a token id");
}

TEST_F(HfConfigTest, RefusesOtherComputations) {
  const auto with = [](const char* key, const json& value) {
    json config = Llama();
    config[key] = value;
    return config;
  };
  ExpectRefused(with("hidden_act", "gelu"), "hidden_act: \"gelu\" is not supported");
  ExpectRefused(with("quantization_config", {{"bits", 4}}), "quantization_config");
  ExpectRefused(with("text_config", json::object()), "text_config");
  ExpectRefused(with("use_mrope", true), "use_mrope");
  ExpectRefused(with("hidden_size", 60), "hidden_size: 60 is not a multiple of the 8 attention heads");
  ExpectRefused(with("num_hidden_layers", 1 << 30), "num_hidden_layers");
  ExpectRefused(with("rms_norm_eps", "small"), "rms_norm_eps");
  ExpectRefused(with("tie_word_embeddings", 1), "tie_word_embeddings: expected true or false");
}

TEST_F(HfConfigTest, HostileFilesAreRefusedByName) {
  SCD_SHARED_OR_SKIP(folder, "cases/config");
  const std::map<std::string, std::string> expected = {
      {"gelu_activation", "hidden_act: \"gelu_new\" is not supported"},
      {"heads_not_multiple_of_kv_heads", "8 is not a multiple of the 3 key-value heads"},
      {"negative_hidden", "hidden_size: expected an integer"},
      {"not_an_object", "expected a JSON object, got an array"},
      {"odd_head_dim", "head_dim: rotary embedding needs an even value, got 7"},
      {"rope_theta_zero", "rope_theta: expected a number above 1, got 0"},
      {"string_for_number", "hidden_size: expected an integer"},
      {"truncated", "not valid JSON"},
      {"unknown_architecture", "architectures: \"BambooForCausalLM\" is not supported"},
      {"unknown_rope_type", "rope_scaling: rope_type: \"spiral\" is not supported"},
      {"zero_layers", "num_hidden_layers: expected an integer in [1,"},
  };
  std::size_t seen = 0;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    const std::string path = item.path().string();
    const auto wanted = expected.find(item.path().stem().string());
    ASSERT_NE(wanted, expected.end()) << path;
    const absl::Status status = LoadHfConfig(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), AllOf(StartsWith(path), HasSubstr(wanted->second)));
    ++seen;
  }
  EXPECT_EQ(seen, expected.size());
  EXPECT_TRUE(Load(Llama()).ok());  // what all of them were made from
}

}  // namespace
}  // namespace scd
