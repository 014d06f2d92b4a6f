#include "common/model/model_source.h"

#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/io/json.h"
#include "common/model/chat_template_source.h"
#include "common/model/gguf_model.h"
#include "common/model/gguf_tokenizer.h"
#include "common/model/hf_config.h"
#include "common/model/hf_weights.h"
#include "common/model/model_digest.h"
#include "common/model/peft_adapter.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

namespace fs = std::filesystem;

constexpr char kConfigFile[] = "config.json";
constexpr char kChatTemplateKey[] = "tokenizer.chat_template";

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// A model as its own files say, before any adapter or other configuration.
struct Base {
  ModelConfig config;  // with which the weights were checked
  std::unique_ptr<StoredWeights> weights;
  std::shared_ptr<const GgufFile> gguf;  // where it is one
  std::int64_t num_unused_layers = 0;
};

absl::StatusOr<Base> OpenBase(const std::string& path) {
  Base base;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return absl::NotFoundError(absl::StrCat(path, ": no such model"));
  if (fs::is_directory(status)) {
    SCD_ASSIGN_OR_RETURN(HfConfig config, LoadHfConfig((fs::path(path) / kConfigFile).string()));
    SCD_ASSIGN_OR_RETURN(HfWeights weights, OpenHfWeights(path, config));
    base.config = std::move(config.model);
    base.config.tie_word_embeddings = weights.tied;
    base.weights = std::move(weights.weights);
    base.num_unused_layers = weights.num_unused_layers;
    return base;
  }
  if (absl::EndsWithIgnoreCase(path, ".safetensors") || absl::EndsWithIgnoreCase(path, ".json")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a .gguf file or the folder of a Hugging Face model"));
  }
  SCD_ASSIGN_OR_RETURN(base.gguf, GgufFile::Open(path));
  SCD_ASSIGN_OR_RETURN(base.config, ParseGgufConfig(*base.gguf));
  SCD_ASSIGN_OR_RETURN(base.weights, OpenGgufWeights(base.gguf, base.config));
  return base;
}

// The file whose hyper-parameters replace the base's own; empty: none does.
std::string ReplacingConfig(const ModelSource& source) {
  if (!source.config.empty()) return source.config;
  if (source.adapter.empty()) return "";
  const fs::path path = fs::path(source.adapter) / kConfigFile;
  return Exists(path) ? path.string() : "";
}

// Another configuration may change how the model computes, not the weights that it has.
absl::Status CheckSameWeights(const ModelConfig& base, const ModelConfig& other, const std::string& path) {
  const auto differs = [&path](absl::string_view field, const auto& theirs, const auto& ours) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", field, " is ", ours, ", but the model's weights have ", theirs));
  };
  if (const absl::Status same = base.CheckTranslatable(other); !same.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", same.message(), " (the model's weights against this file)"));
  }
  if (base.num_heads != other.num_heads)
    return differs("number of attention heads", base.num_heads, other.num_heads);
  if (base.intermediate_size != other.intermediate_size) {
    return differs("intermediate size", base.intermediate_size, other.intermediate_size);
  }
  if (base.vocab_size != other.vocab_size)
    return differs("vocabulary size", base.vocab_size, other.vocab_size);
  if (base.qkv_bias != other.qkv_bias) return differs("bias of q, k and v", base.qkv_bias, other.qkv_bias);
  if (base.o_bias != other.o_bias) return differs("bias of the attention output", base.o_bias, other.o_bias);
  if (base.mlp_bias != other.mlp_bias) return differs("bias of the MLP", base.mlp_bias, other.mlp_bias);
  return absl::OkStatus();
}

// The hyper-parameters in force: the base's, unless a file replaces them.
absl::StatusOr<ModelConfig> EffectiveConfig(const ModelSource& source, const Base& base) {
  const std::string path = ReplacingConfig(source);
  if (path.empty()) return base.config;
  SCD_ASSIGN_OR_RETURN(HfConfig replacing, LoadHfConfig(path));
  SCD_RETURN_IF_ERROR(CheckSameWeights(base.config, replacing.model, path));
  if (replacing.states_tied && replacing.model.tie_word_embeddings != base.config.tie_word_embeddings) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": tie_word_embeddings contradicts the model's weights"));
  }
  ModelConfig config = std::move(replacing.model);
  config.tie_word_embeddings = base.config.tie_word_embeddings;
  if (config.eos_token_ids.empty()) config.eos_token_ids = base.config.eos_token_ids;
  if (!config.bos_token_id) config.bos_token_id = base.config.bos_token_id;
  return config;
}

// The adapter's own tokenizer where its folder has one, else the base's.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const ModelSource& source, const Base& base) {
  if (!source.adapter.empty()) {
    auto own = LoadTokenizer(source.adapter);
    if (own.ok() || !absl::IsNotFound(own.status())) return own;
  }
  if (base.gguf != nullptr) return LoadGgufTokenizer(*base.gguf);
  return LoadTokenizer(source.path);
}

absl::StatusOr<std::string> OpenChatTemplate(const ModelSource& source, const Base& base) {
  if (!source.adapter.empty()) {
    SCD_ASSIGN_OR_RETURN(std::string own, ChatTemplateSource(source.adapter));
    if (!own.empty()) return own;
  }
  if (base.gguf == nullptr) return ChatTemplateSource(source.path);
  if (!base.gguf->Has(kChatTemplateKey)) return std::string();
  return base.gguf->String(kChatTemplateKey);
}

std::string FileName(const std::string& path) {
  const fs::path normal = fs::path(path).lexically_normal();
  return normal.has_filename() ? normal.filename().string() : normal.parent_path().filename().string();
}

// "135 M", "7.2 B".
std::string CountText(double count) {
  if (count >= 1e10) return absl::StrCat(std::llround(count / 1e9), " B");
  if (count >= 1e9) return absl::StrCat(static_cast<double>(std::llround(count / 1e8)) / 10, " B");
  if (count >= 1e6) return absl::StrCat(std::llround(count / 1e6), " M");
  return absl::StrCat(std::llround(count / 1e3), " k");
}

std::string Describe(const ModelSource& source, const ModelConfig& config, std::int64_t num_unused_layers) {
  double count = 0;
  for (const WeightKind kind : ModelWeightKinds(config)) {
    count += static_cast<double>(WeightShape(config, kind).num_elements());
  }
  for (const WeightKind kind : LayerWeightKinds(config)) {
    count += static_cast<double>(config.num_layers * WeightShape(config, kind).num_elements());
  }
  std::string text = FileName(source.path);
  if (!source.adapter.empty()) absl::StrAppend(&text, " + ", FileName(source.adapter));
  absl::StrAppend(&text, " (", std::string(ArchitectureName(config.architecture)), ", ", config.num_layers,
                  " layers");
  if (num_unused_layers > 0)
    absl::StrAppend(&text, " of the ", config.num_layers + num_unused_layers, " in its files");
  absl::StrAppend(&text, ", ", CountText(count), " weights)");
  return text;
}

}  // namespace

absl::StatusOr<Model> OpenModel(const ModelSource& source) {
  SCD_ASSIGN_OR_RETURN(Base base, OpenBase(source.path));
  Model model;
  SCD_ASSIGN_OR_RETURN(model.config, EffectiveConfig(source, base));
  std::unique_ptr<PeftAdapter> adapter;
  if (!source.adapter.empty()) {
    SCD_ASSIGN_OR_RETURN(adapter, PeftAdapter::Open(source.adapter, base.config));
    if (adapter->unties_embeddings()) model.config.tie_word_embeddings = false;
  }
  SCD_ASSIGN_OR_RETURN(model.tokenizer, OpenTokenizer(source, base));
  SCD_ASSIGN_OR_RETURN(model.chat_template_source, OpenChatTemplate(source, base));
  SCD_ASSIGN_OR_RETURN(model.digest, ModelDigest(model.config, base.config, *base.weights, adapter.get()));
  model.description = Describe(source, model.config, base.num_unused_layers);
  model.weights = std::move(base.weights);
  model.weights_format = source.weights;
  if (adapter != nullptr) model.weights = MergedWeights(std::move(model.weights), std::move(adapter));
  return model;
}

}  // namespace scd
