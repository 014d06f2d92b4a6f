#include "common/model/peft_config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/io/json.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxRank = 65536;
constexpr double kMaxAlpha = 1e9;
constexpr std::int64_t kMaxLayer = 1 << 20;

// Fields that say nothing about what a trained adapter computes.
constexpr std::array<const char*, 15> kWithoutEffect = {"auto_mapping",      "base_model_name_or_path",
                                                        "inference_mode",    "lora_dropout",
                                                        "peft_version",      "revision",
                                                        "megatron_core",     "loftq_config",
                                                        "qalora_group_size", "runtime_config",
                                                        "eva_config",        "corda_config",
                                                        "lora_ga_config",    "ensure_weight_tying",
                                                        "task_type"};

// Fields that this file reads.
constexpr std::array<const char*, 14> kRead = {"peft_type",         "r",
                                               "lora_alpha",        "use_rslora",
                                               "rank_pattern",      "alpha_pattern",
                                               "target_modules",    "exclude_modules",
                                               "layers_pattern",    "layers_to_transform",
                                               "modules_to_save",   "bias",
                                               "init_lora_weights", "fan_in_fan_out"};

bool Contains(absl::Span<const char* const> list, const std::string& name) {
  return std::any_of(list.begin(), list.end(), [&name](const char* item) { return name == item; });
}

// null, false, "" or an empty list or object: a switch that is off.
bool IsOff(const json& value) {
  return value.is_null() || value == false || value == "" ||
         ((value.is_array() || value.is_object()) && value.empty());
}

absl::Status RefuseUnsupported(const JsonObject& config) {
  SCD_ASSIGN_OR_RETURN(const std::string type, config.String("peft_type"));
  if (type != "LORA") {
    return config.Error("peft_type",
                        absl::StrCat("\"", absl::CHexEscape(type), "\" is not supported (LORA is)"));
  }
  for (const auto& [key, value] : config.value().items()) {
    if (Contains(kWithoutEffect, key) || Contains(kRead, key) || IsOff(value)) continue;
    return config.Error(absl::CHexEscape(key), "this kind of adapter is not supported");
  }
  if (config.Has("task_type") && *config.Find("task_type") != "CAUSAL_LM") {
    return config.Error("task_type", "only CAUSAL_LM is supported");
  }
  if (config.Has("bias") && *config.Find("bias") != "none") {
    return config.Error("bias", "trained biases are not supported (\"none\" is)");
  }
  if (config.Has("fan_in_fan_out")) {
    SCD_ASSIGN_OR_RETURN(const bool transposed, config.Bool("fan_in_fan_out"));
    if (transposed) return config.Error("fan_in_fan_out", "transposed weights are not supported");
  }
  if (config.Has("init_lora_weights") && !config.Find("init_lora_weights")->is_boolean()) {
    // Some initialisations move a part of the base's weights into the adapter; what they leave is not the
    // base.
    SCD_ASSIGN_OR_RETURN(const std::string init, config.String("init_lora_weights"));
    if (init != "gaussian" && init != "eva" && init != "orthogonal") {
      return config.Error("init_lora_weights",
                          absl::StrCat("\"", absl::CHexEscape(init),
                                       "\" changes the base's own "
                                       "weights and is not supported; convert the adapter to plain "
                                       "LoRA when saving it"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<NamePattern> CompilePattern(const JsonObject& config, const char* key,
                                           const std::string& pattern) {
  auto compiled = NamePattern::Create(pattern);
  if (!compiled.ok()) return config.Error(key, compiled.status().message());
  return compiled;
}

absl::StatusOr<std::vector<std::string>> StringList(const JsonObject& config, const char* key) {
  std::vector<std::string> out;
  const json& list = *config.Find(key);
  if (!list.is_array()) return config.Error(key, "expected a list of names");
  for (const json& name : list) {
    if (!name.is_string() || name.get_ref<const std::string&>().empty()) {
      return config.Error(key, "expected a list of names");
    }
    out.push_back(name.get<std::string>());
  }
  return out;
}

absl::StatusOr<ModuleSelector> ParseSelector(const JsonObject& config, const char* key) {
  ModuleSelector out;
  if (!config.Has(key)) return out;
  if (!config.Find(key)->is_string()) {
    SCD_ASSIGN_OR_RETURN(out.names, StringList(config, key));
    return out;
  }
  SCD_ASSIGN_OR_RETURN(const std::string text, config.String(key));
  if (absl::AsciiStrToLower(text) == "all-linear") {
    out.all_linear = true;
    return out;
  }
  SCD_ASSIGN_OR_RETURN(auto pattern, CompilePattern(config, key, text));
  out.pattern.emplace(std::move(pattern));
  return out;
}

// Python's re.match(rf"(.*\.)?({key})$", name).
std::string SuffixPattern(const std::string& key) {
  return absl::StrCat("(.*\\.)?(", key, ")$");
}

template <typename Number, typename Read>
absl::Status ParsePatterns(const JsonObject& config, const char* key, Read read,
                           std::vector<std::pair<NamePattern, Number>>& out) {
  if (!config.Has(key)) return absl::OkStatus();
  SCD_ASSIGN_OR_RETURN(const JsonObject patterns, config.Object(key));
  for (const auto& [text, value] : patterns.value().items()) {
    SCD_ASSIGN_OR_RETURN(const Number number, read(patterns, text.c_str()));
    SCD_ASSIGN_OR_RETURN(auto pattern, CompilePattern(config, key, SuffixPattern(text)));
    out.emplace_back(std::move(pattern), number);
  }
  return absl::OkStatus();
}

absl::Status ParseLayers(const JsonObject& config, PeftConfig& out) {
  const json* layers = config.Find("layers_to_transform");
  if (layers == nullptr || layers->is_null() || (layers->is_array() && layers->empty()))
    return absl::OkStatus();
  if (out.targets.pattern || out.targets.all_linear) {
    return config.Error("layers_to_transform", "needs target_modules to be a list of names");
  }
  if (config.Has("layers_pattern") && !IsOff(*config.Find("layers_pattern"))) {
    const json& pattern = *config.Find("layers_pattern");
    const json list = pattern.is_array() ? pattern : json::array({pattern});
    if (std::find(list.begin(), list.end(), "layers") == list.end()) {
      return config.Error("layers_pattern", "is not \"layers\", the only one that these architectures have");
    }
  }
  std::set<std::int64_t>& chosen = out.layers.emplace();
  const json list = layers->is_array() ? *layers : json::array({*layers});
  for (const json& layer : list) {
    if (!layer.is_number_unsigned() || layer.get<std::uint64_t>() > kMaxLayer) {
      return config.Error("layers_to_transform", "expected a layer's number or a list of them");
    }
    chosen.insert(layer.get<std::int64_t>());
  }
  return absl::OkStatus();
}

// The value of the patterns that match, or `otherwise` where none does.
template <typename Number>
absl::StatusOr<Number> Choose(const std::vector<std::pair<NamePattern, Number>>& patterns,
                              absl::string_view module, Number otherwise, const std::string& where) {
  std::optional<Number> chosen;
  for (const auto& [pattern, number] : patterns) {
    auto matches = pattern.Matches(module);
    if (!matches.ok())
      return absl::InvalidArgumentError(absl::StrCat(where, ": ", matches.status().message()));
    if (!*matches) continue;
    if (chosen && *chosen != number) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": several patterns with different values match ", module));
    }
    chosen = number;
  }
  return chosen.value_or(otherwise);
}

}  // namespace

absl::StatusOr<bool> ModuleSelector::Matches(absl::string_view module) const {
  if (pattern) return pattern->Matches(module);
  return std::any_of(names.begin(), names.end(), [module](const std::string& name) {
    return module == name || absl::EndsWith(module, absl::StrCat(".", name));
  });
}

absl::StatusOr<PeftConfig::Lora> PeftConfig::LoraOf(absl::string_view module) const {
  Lora out{};
  SCD_ASSIGN_OR_RETURN(out.rank, Choose(rank_patterns, module, rank, absl::StrCat(path, ": rank_pattern")));
  SCD_ASSIGN_OR_RETURN(out.alpha,
                       Choose(alpha_patterns, module, alpha, absl::StrCat(path, ": alpha_pattern")));
  const auto width = static_cast<double>(out.rank);
  out.scale = out.alpha / (rank_stabilised ? std::sqrt(width) : width);
  return out;
}

absl::StatusOr<PeftConfig> LoadPeftConfig(const std::string& path) {
  SCD_ASSIGN_OR_RETURN(const json document, ParseJsonFile(path));
  SCD_ASSIGN_OR_RETURN(const JsonObject config, JsonObject::Create(document, path));
  SCD_RETURN_IF_ERROR(RefuseUnsupported(config));
  PeftConfig out;
  out.path = path;
  SCD_ASSIGN_OR_RETURN(out.rank, config.Int("r", 1, kMaxRank));
  SCD_ASSIGN_OR_RETURN(out.alpha, config.Double("lora_alpha", -kMaxAlpha, kMaxAlpha));
  if (config.Has("use_rslora")) {
    SCD_ASSIGN_OR_RETURN(out.rank_stabilised, config.Bool("use_rslora"));
  }
  const auto read_rank = [](const JsonObject& o, const char* key) { return o.Int(key, 1, kMaxRank); };
  const auto read_alpha = [](const JsonObject& o, const char* key) {
    return o.Double(key, -kMaxAlpha, kMaxAlpha);
  };
  SCD_RETURN_IF_ERROR(ParsePatterns(config, "rank_pattern", read_rank, out.rank_patterns));
  SCD_RETURN_IF_ERROR(ParsePatterns(config, "alpha_pattern", read_alpha, out.alpha_patterns));
  if (!config.Has("target_modules")) return config.Error("target_modules", "missing");
  SCD_ASSIGN_OR_RETURN(out.targets, ParseSelector(config, "target_modules"));
  SCD_ASSIGN_OR_RETURN(out.excluded, ParseSelector(config, "exclude_modules"));
  if (out.excluded.all_linear) return config.Error("exclude_modules", "\"all-linear\" is not supported");
  SCD_RETURN_IF_ERROR(ParseLayers(config, out));
  if (config.Has("modules_to_save")) {
    SCD_ASSIGN_OR_RETURN(out.modules_to_save, StringList(config, "modules_to_save"));
    const bool ties = config.Has("ensure_weight_tying") && *config.Find("ensure_weight_tying") != false;
    if (ties) return config.Error("ensure_weight_tying", "is not supported together with modules_to_save");
  }
  return out;
}

}  // namespace scd
