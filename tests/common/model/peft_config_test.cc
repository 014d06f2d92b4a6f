#include "common/model/peft_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nlohmann/json.hpp"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kQ0[] = "model.layers.0.self_attn.q_proj";

class PeftConfigTest : public ::testing::Test {
 protected:
  static json Plain() {
    return {{"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 8}, {"target_modules", {"q_proj", "v_proj"}}};
  }
  absl::StatusOr<PeftConfig> Load(const json& config) {
    testing::WriteFile(path_, config.dump());
    return LoadPeftConfig(path_);
  }
  PeftConfig Loaded(const json& config) {
    auto loaded = Load(config);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *std::move(loaded) : PeftConfig();
  }
  void ExpectRefused(const json& config, const std::string& what) {
    const absl::Status status = Load(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << config;
    EXPECT_THAT(std::string(status.message()), AllOf(StartsWith(path_ + ": "), HasSubstr(what)));
  }
  static json With(const char* key, const json& value) {
    json config = Plain();
    config[key] = value;
    return config;
  }

  testing::TempDir dir_;
  const std::string path_ = dir_.File("adapter_config.json");
};

TEST_F(PeftConfigTest, ScalesByAlphaAndRank) {
  const auto lora = Loaded(Plain()).LoraOf(kQ0);
  ASSERT_TRUE(lora.ok()) << lora.status();
  EXPECT_EQ(lora->rank, 4);
  EXPECT_EQ(lora->alpha, 8.0);
  EXPECT_EQ(lora->scale, 2.0);
  EXPECT_EQ(Loaded(With("use_rslora", true)).LoraOf(kQ0)->scale, 4.0);
  EXPECT_EQ(Loaded(With("lora_alpha", 2.5)).LoraOf(kQ0)->scale, 0.625);
}

TEST_F(PeftConfigTest, PatternsMatchLastPartsAsInPeft) {
  json config = Plain();
  config["rank_pattern"] = {{"q_proj", 8}, {"layers\\.[12]\\.mlp\\.up_proj", 3}};
  config["alpha_pattern"] = {{"^model.layers.0.self_attn.q_proj", 2}};
  const PeftConfig loaded = Loaded(config);
  EXPECT_EQ(loaded.LoraOf(kQ0)->rank, 8);
  EXPECT_EQ(loaded.LoraOf(kQ0)->alpha, 2.0);
  EXPECT_EQ(loaded.LoraOf("model.layers.1.self_attn.q_proj")->alpha, 8.0);
  EXPECT_EQ(loaded.LoraOf("model.layers.1.mlp.up_proj")->rank, 3);
  EXPECT_EQ(loaded.LoraOf("model.layers.3.mlp.up_proj")->rank, 4);
  EXPECT_EQ(loaded.LoraOf("model.layers.0.self_attn.my_q_proj")->rank,
            4);  // a part must match from its start

  config["rank_pattern"] = {{"q_proj", 8}, {"layers.0.self_attn.q_proj", 3}};
  const auto ambiguous = Loaded(config).LoraOf(kQ0).status();
  EXPECT_THAT(std::string(ambiguous.message()),
              HasSubstr("rank_pattern: several patterns with different values match"));
  config["rank_pattern"]["q_proj"] = 3;
  EXPECT_EQ(Loaded(config).LoraOf(kQ0)->rank, 3);
}

TEST_F(PeftConfigTest, SelectsModulesByNameOrPattern) {
  const auto matches = [this](const json& targets, const char* module) {
    return Loaded(With("target_modules", targets)).targets.Matches(module).value();
  };
  EXPECT_TRUE(matches({"q_proj"}, kQ0));
  EXPECT_TRUE(matches({kQ0}, kQ0));
  EXPECT_TRUE(matches({"self_attn.q_proj"}, kQ0));
  EXPECT_FALSE(matches({"proj"}, kQ0));
  EXPECT_FALSE(matches({"k_proj"}, kQ0));
  EXPECT_TRUE(matches(".*\\.q_proj", kQ0));
  EXPECT_FALSE(matches("q_proj", kQ0));  // a pattern must match the whole name
  EXPECT_TRUE(matches("model\\.layers\\.(?P<n>[0-3])\\.self_attn\\.(q|k)_proj", kQ0));
  EXPECT_TRUE(Loaded(With("target_modules", "all-linear")).targets.all_linear);
  ExpectRefused(With("target_modules", "(q_proj"),
                "target_modules: the pattern \"(q_proj\" is not valid at byte");
  ExpectRefused(With("target_modules", std::string(5000, 'a')), "is longer than 4096 bytes");
  ExpectRefused(With("target_modules", nullptr), "target_modules: missing");
  ExpectRefused(With("target_modules", {1}), "target_modules: expected a list of names");
  const PeftConfig slow = Loaded(With("target_modules", "(([a-z_.0-9]+)*)*[XY]"));
  EXPECT_THAT(std::string(slow.targets.Matches(kQ0).status().message()), HasSubstr("cannot be matched"));
}

TEST_F(PeftConfigTest, Layers) {
  EXPECT_EQ(Loaded(Plain()).layers, std::nullopt);
  EXPECT_EQ(Loaded(With("layers_to_transform", json::array())).layers, std::nullopt);
  EXPECT_EQ(Loaded(With("layers_to_transform", 2)).layers, std::set<std::int64_t>({2}));
  EXPECT_EQ(Loaded(With("layers_to_transform", {2, 0})).layers, std::set<std::int64_t>({0, 2}));
  ExpectRefused(With("layers_to_transform", {-1}), "layers_to_transform: expected a layer's number");
  json config = With("layers_to_transform", 2);
  config["layers_pattern"] = "layers";
  EXPECT_TRUE(Load(config).ok());
  config["layers_pattern"] = {"h"};
  ExpectRefused(config, "layers_pattern");
  config = With("layers_to_transform", 2);
  config["target_modules"] = ".*q_proj";
  ExpectRefused(config, "layers_to_transform: needs target_modules to be a list");
}

TEST_F(PeftConfigTest, RefusesOtherKindsByName) {
  ExpectRefused(With("peft_type", "IA3"), "peft_type: \"IA3\" is not supported");
  ExpectRefused(With("use_dora", true), "use_dora: this kind of adapter is not supported");
  ExpectRefused(With("bias", "all"), "bias: trained biases are not supported");
  ExpectRefused(With("lora_bias", true), "lora_bias");
  ExpectRefused(With("fan_in_fan_out", true), "fan_in_fan_out");
  ExpectRefused(With("trainable_token_indices", {1, 2}), "trainable_token_indices");
  ExpectRefused(With("layer_replication", {{0, 4}}), "layer_replication");
  ExpectRefused(With("alora_invocation_tokens", {1}), "alora_invocation_tokens");
  ExpectRefused(With("target_parameters", {"experts.w"}), "target_parameters");
  ExpectRefused(With("megatron_config", {{"a", 1}}), "megatron_config");
  ExpectRefused(With("use_tomorrows_method", true), "use_tomorrows_method");
  ExpectRefused(With("init_lora_weights", "pissa_niter_4"),
                "init_lora_weights: \"pissa_niter_4\" changes the base");
  ExpectRefused(With("task_type", "SEQ_CLS"), "task_type");
  ExpectRefused(With("r", 0), "r: expected an integer in [1,");
  ExpectRefused(With("lora_alpha", "big"), "lora_alpha");
  ExpectRefused(With("rank_pattern", {{"q_proj", "x"}}), "rank_pattern: q_proj");
  ExpectRefused(With("rank_pattern", {{"(", 2}}), "rank_pattern: the pattern");
  ExpectRefused(json::array(), "expected a JSON object");
  json config = With("modules_to_save", {"lm_head"});
  config["ensure_weight_tying"] = true;
  ExpectRefused(config, "ensure_weight_tying");
  const json harmless = {{"use_dora", false},
                         {"bias", "none"},
                         {"lora_bias", false},
                         {"init_lora_weights", "gaussian"},
                         {"megatron_config", nullptr},
                         {"loftq_config", json::object()},
                         {"task_type", "CAUSAL_LM"},
                         {"qalora_group_size", 16},
                         {"use_tomorrows_method", false}};
  for (const auto& [key, value] : harmless.items()) EXPECT_TRUE(Load(With(key.c_str(), value)).ok()) << key;
}

}  // namespace
}  // namespace scd
