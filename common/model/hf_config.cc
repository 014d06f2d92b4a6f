#include "common/model/hf_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using nlohmann::json;

// Wide enough for any model; ModelConfig::Validate has the real bounds, and says so by its own names.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;
constexpr std::int64_t kMaxLayers = 1024;

struct ArchitectureNames {
  Architecture architecture;
  const char* class_name;
  const char* model_type;
};

constexpr std::array<ArchitectureNames, 4> kArchitectures = {{
    {Architecture::kLlama, "LlamaForCausalLM", "llama"},
    {Architecture::kMistral, "MistralForCausalLM", "mistral"},
    {Architecture::kQwen2, "Qwen2ForCausalLM", "qwen2"},
    {Architecture::kQwen3, "Qwen3ForCausalLM", "qwen3"},
}};

absl::StatusOr<Architecture> ParseArchitecture(const JsonObject& config) {
  std::string class_name;
  if (config.Has("architectures")) {
    const json& list = *config.Find("architectures");
    if (!list.is_array() || list.size() != 1 || !list[0].is_string()) {
      return config.Error("architectures", "expected an array of one name");
    }
    class_name = list[0].get<std::string>();
  }
  std::string model_type;
  if (config.Has("model_type")) {
    SCD_ASSIGN_OR_RETURN(model_type, config.String("model_type"));
  }
  if (class_name.empty() && model_type.empty()) return config.Error("architectures", "missing");
  for (const ArchitectureNames& names : kArchitectures) {
    const bool class_fits = class_name.empty() || class_name == names.class_name;
    const bool type_fits = model_type.empty() || model_type == names.model_type;
    if (class_fits && type_fits) return names.architecture;
    if (!class_name.empty() && class_fits) {
      return config.Error("model_type", absl::StrCat("\"", absl::CHexEscape(model_type),
                                                     "\" contradicts the architecture ", class_name));
    }
  }
  const char* field = class_name.empty() ? "model_type" : "architectures";
  return config.Error(
      field, absl::StrCat("\"", absl::CHexEscape(class_name.empty() ? model_type : class_name),
                          "\" is not supported (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, "
                          "Qwen3ForCausalLM are)"));
}

absl::StatusOr<bool> BoolOr(const JsonObject& config, const char* key, bool otherwise) {
  if (!config.Has(key)) return otherwise;
  return config.Bool(key);
}

// What would change the computation and is not supported.
absl::Status RefuseUnsupported(const JsonObject& config) {
  if (config.Has("hidden_act")) {
    SCD_ASSIGN_OR_RETURN(const std::string activation, config.String("hidden_act"));
    if (activation != "silu" && activation != "swish") {
      return config.Error("hidden_act",
                          absl::StrCat("\"", absl::CHexEscape(activation), "\" is not supported (silu is)"));
    }
  }
  if (config.Has("quantization_config")) {
    return config.Error("quantization_config", "quantised Hugging Face weights are not supported");
  }
  for (const char* key : {"per_layer_config", "text_config", "vision_config"}) {
    if (config.Has(key)) return config.Error(key, "is not supported");
  }
  SCD_ASSIGN_OR_RETURN(const bool multimodal_rope, BoolOr(config, "use_mrope", false));
  if (multimodal_rope) return config.Error("use_mrope", "multimodal RoPE is not supported");
  return absl::OkStatus();
}

// Width of the window of each layer (0: full attention), from layer_types or else from max_window_layers on.
absl::StatusOr<std::vector<std::int64_t>> WindowByLayer(const JsonObject& config, std::int64_t num_layers,
                                                        std::optional<std::int64_t> width) {
  std::vector<std::int64_t> windows(static_cast<std::size_t>(num_layers), 0);
  if (!config.Has("layer_types")) {
    std::int64_t first = 28;  // transformers' default
    if (config.Has("max_window_layers")) {
      SCD_ASSIGN_OR_RETURN(first, config.Int("max_window_layers", 0, kMaxSize));
    }
    for (std::int64_t layer = first; width && layer < num_layers; ++layer) {
      windows[static_cast<std::size_t>(layer)] = *width;
    }
    return windows;
  }
  const json& types = *config.Find("layer_types");
  if (!types.is_array() || static_cast<std::int64_t>(types.size()) != num_layers) {
    return config.Error("layer_types", absl::StrCat("expected an array of ", num_layers, " names"));
  }
  for (std::size_t layer = 0; layer < windows.size(); ++layer) {
    if (types[layer] == "full_attention") continue;
    if (types[layer] != "sliding_attention") {
      return config.Error("layer_types",
                          absl::StrCat("entry ", layer, " is neither full_attention nor sliding_attention"));
    }
    if (!width)
      return config.Error("layer_types", absl::StrCat("layer ", layer, " slides but no window is in use"));
    windows[layer] = *width;
  }
  return windows;
}

absl::StatusOr<std::vector<std::int64_t>> ParseSlidingWindow(const JsonObject& config,
                                                             Architecture architecture,
                                                             std::int64_t num_layers) {
  std::optional<std::int64_t> width;
  if (config.Has("sliding_window")) {
    SCD_ASSIGN_OR_RETURN(width, config.Int("sliding_window", 1, kMaxSize));
  } else if (config.Find("sliding_window") == nullptr) {
    width = 4096;  // transformers' default where the field is missing; null means no window
  }
  std::vector<std::int64_t> windows(static_cast<std::size_t>(num_layers), 0);
  switch (architecture) {
    case Architecture::kLlama:
      // transformers ignores a window here; a file that asks for one is of a model that needs it.
      if (config.Has("sliding_window"))
        return config.Error("sliding_window", "is not part of LlamaForCausalLM");
      if (config.Has("layer_types")) {
        SCD_ASSIGN_OR_RETURN(windows, WindowByLayer(config, num_layers, std::nullopt));
      }
      break;
    case Architecture::kMistral:
      if (config.Has("layer_types")) return config.Error("layer_types", "is not part of MistralForCausalLM");
      windows.assign(windows.size(), width.value_or(0));
      break;
    case Architecture::kQwen2:
    case Architecture::kQwen3: {
      SCD_ASSIGN_OR_RETURN(const bool in_use, BoolOr(config, "use_sliding_window", false));
      if (!in_use) width.reset();
      SCD_ASSIGN_OR_RETURN(windows, WindowByLayer(config, num_layers, width));
      break;
    }
  }
  const bool any = std::any_of(windows.begin(), windows.end(), [](std::int64_t w) { return w != 0; });
  if (!any) windows.clear();
  return windows;
}

// One id, a list of ids or null.
absl::StatusOr<std::vector<std::int32_t>> ParseTokenIds(const JsonObject& config, const char* key) {
  std::vector<std::int32_t> ids;
  if (!config.Has(key)) return ids;
  const json& value = *config.Find(key);
  const json list = value.is_array() ? value : json::array({value});
  for (const json& id : list) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max()) {
      return config.Error(key, "expected a token id or a list of token ids");
    }
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

absl::Status ParseSizes(const JsonObject& config, ModelConfig& model) {
  const auto size = [&config](const char* key, std::int64_t& out) -> absl::Status {
    SCD_ASSIGN_OR_RETURN(out, config.Int(key, 1, kMaxSize));
    return absl::OkStatus();
  };
  // Bounded here already, because what follows makes things for each layer.
  SCD_ASSIGN_OR_RETURN(model.num_layers, config.Int("num_hidden_layers", 1, kMaxLayers));
  SCD_RETURN_IF_ERROR(size("hidden_size", model.hidden_size));
  SCD_RETURN_IF_ERROR(size("intermediate_size", model.intermediate_size));
  SCD_RETURN_IF_ERROR(size("num_attention_heads", model.num_heads));
  SCD_RETURN_IF_ERROR(size("vocab_size", model.vocab_size));
  SCD_RETURN_IF_ERROR(size("max_position_embeddings", model.max_positions));
  // Old Llama files have no such field; elsewhere its default would be a guess.
  const bool heads_alone = config.Find("num_key_value_heads") == nullptr
                               ? model.architecture == Architecture::kLlama
                               : !config.Has("num_key_value_heads");
  model.num_kv_heads = model.num_heads;
  if (!heads_alone) SCD_RETURN_IF_ERROR(size("num_key_value_heads", model.num_kv_heads));
  if (config.Has("head_dim")) return size("head_dim", model.head_dim);
  if (model.architecture == Architecture::kQwen3 && config.Find("head_dim") == nullptr) {
    model.head_dim = 128;  // transformers' default of this class, whatever the hidden size
    return absl::OkStatus();
  }
  if (model.hidden_size % model.num_heads != 0) {
    return config.Error("hidden_size", absl::StrCat(model.hidden_size, " is not a multiple of the ",
                                                    model.num_heads, " attention heads"));
  }
  model.head_dim = model.hidden_size / model.num_heads;
  return absl::OkStatus();
}

absl::StatusOr<HfConfig> Parse(const JsonObject& config) {
  HfConfig out;
  ModelConfig& model = out.model;
  SCD_ASSIGN_OR_RETURN(model.architecture, ParseArchitecture(config));
  SCD_RETURN_IF_ERROR(RefuseUnsupported(config));
  SCD_RETURN_IF_ERROR(ParseSizes(config, model));
  model.rms_norm_eps = 1e-6;  // transformers' default
  if (config.Has("rms_norm_eps")) {
    SCD_ASSIGN_OR_RETURN(model.rms_norm_eps, config.Double("rms_norm_eps", 0, 1));
  }
  SCD_ASSIGN_OR_RETURN(model.rope, ParseHfRope(config, model.max_positions));
  SCD_ASSIGN_OR_RETURN(model.sliding_window,
                       ParseSlidingWindow(config, model.architecture, model.num_layers));
  out.states_tied = config.Has("tie_word_embeddings");
  SCD_ASSIGN_OR_RETURN(model.tie_word_embeddings, BoolOr(config, "tie_word_embeddings", false));

  SCD_ASSIGN_OR_RETURN(const bool attention_bias, BoolOr(config, "attention_bias", false));
  SCD_ASSIGN_OR_RETURN(const bool mlp_bias, BoolOr(config, "mlp_bias", false));
  const bool has_attention_bias =
      model.architecture == Architecture::kLlama || model.architecture == Architecture::kQwen3;
  if (attention_bias && model.architecture == Architecture::kMistral) {
    return config.Error("attention_bias", "is not part of MistralForCausalLM");
  }
  if (mlp_bias && model.architecture != Architecture::kLlama) {
    return config.Error("mlp_bias", "is only part of LlamaForCausalLM");
  }
  model.qkv_bias = model.architecture == Architecture::kQwen2 || (has_attention_bias && attention_bias);
  model.o_bias = has_attention_bias && attention_bias;
  model.mlp_bias = mlp_bias;
  model.qk_norm = model.architecture == Architecture::kQwen3;

  SCD_ASSIGN_OR_RETURN(const auto bos, ParseTokenIds(config, "bos_token_id"));
  if (!bos.empty()) model.bos_token_id = bos.front();
  SCD_ASSIGN_OR_RETURN(model.eos_token_ids, ParseTokenIds(config, "eos_token_id"));
  return out;
}

}  // namespace

absl::StatusOr<HfConfig> LoadHfConfig(const std::string& config_path) {
  SCD_ASSIGN_OR_RETURN(const json document, ParseJsonFile(config_path));
  SCD_ASSIGN_OR_RETURN(const JsonObject config, JsonObject::Create(document, config_path));
  SCD_ASSIGN_OR_RETURN(HfConfig out, Parse(config));

  const std::string generation_path =
      (std::filesystem::path(config_path).parent_path() / "generation_config.json").string();
  auto generation = ParseJsonFile(generation_path);
  if (generation.ok()) {
    SCD_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::Create(*generation, generation_path));
    SCD_ASSIGN_OR_RETURN(auto eos, ParseTokenIds(object, "eos_token_id"));
    if (!eos.empty()) out.model.eos_token_ids = std::move(eos);
  } else if (!absl::IsNotFound(generation.status())) {
    return generation.status();
  }
  SCD_RETURN_IF_ERROR(out.model.Validate(config_path));
  return out;
}

}  // namespace scd
