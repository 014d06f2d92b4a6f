#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/model/gguf_model.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;
constexpr std::int64_t kMaxLayers = 1024;

absl::StatusOr<Architecture> ParseArchitecture(const GgufFile& file) {
  SCD_ASSIGN_OR_RETURN(const std::string name, file.String("general.architecture"));
  for (const Architecture a : {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    if (name == ArchitectureName(a)) return a;
  }
  return file.Error("general.architecture", absl::StrCat("\"", absl::CHexEscape(name),
                                                         "\" is not supported (llama, qwen2, qwen3 are)"));
}

// A number, or an array with the same number for every layer.
absl::StatusOr<std::int64_t> UniformInt(const GgufFile& file, const std::string& key) {
  if (!file.IsArray(key)) return file.Int(key, 1, kMaxSize);
  SCD_ASSIGN_OR_RETURN(const auto values, file.IntArray(key));
  if (values.empty() ||
      std::any_of(values.begin(), values.end(), [&](std::int64_t v) { return v != values[0]; })) {
    return file.Error(key, "values that differ between layers are not supported");
  }
  if (values[0] < 1) return file.Error(key, absl::StrCat("expected a positive value, got ", values[0]));
  return values[0];
}

absl::Status RefuseUnsupported(const GgufFile& file, const std::string& prefix) {
  for (const char* key : {"expert_count", "expert_used_count", "attention.clamp_kqv", "logit_scale",
                          "embedding_scale", "residual_scale", "attention.scale", "attn_logit_softcapping",
                          "final_logit_softcapping", "attention.sliding_window_pattern"}) {
    const std::string name = absl::StrCat(prefix, key);
    if (!file.Has(name)) continue;
    const bool zero = !file.IsArray(name) && file.Double(name, 0, 0).ok();
    if (!zero) return file.Error(name, "is not supported");
  }
  return absl::OkStatus();
}

absl::Status ParseTokenIds(const GgufFile& file, ModelConfig& config) {
  constexpr std::int64_t kMaxId = std::numeric_limits<std::int32_t>::max();
  if (file.Has("tokenizer.ggml.bos_token_id")) {
    SCD_ASSIGN_OR_RETURN(const std::int64_t bos, file.Int("tokenizer.ggml.bos_token_id", 0, kMaxId));
    config.bos_token_id = static_cast<std::int32_t>(bos);
  }
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (!file.Has(key)) continue;
    SCD_ASSIGN_OR_RETURN(const std::int64_t id, file.Int(key, 0, kMaxId));
    auto& ids = config.eos_token_ids;
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(static_cast<std::int32_t>(id));
  }
  return absl::OkStatus();
}

absl::Status ParseHeads(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  SCD_ASSIGN_OR_RETURN(config.num_heads, UniformInt(file, absl::StrCat(prefix, "attention.head_count")));
  config.num_kv_heads = config.num_heads;
  if (const std::string key = absl::StrCat(prefix, "attention.head_count_kv"); file.Has(key)) {
    SCD_ASSIGN_OR_RETURN(config.num_kv_heads, UniformInt(file, key));
  }
  const std::string key_length = absl::StrCat(prefix, "attention.key_length");
  if (file.Has(key_length)) {
    SCD_ASSIGN_OR_RETURN(config.head_dim, file.Int(key_length, 1, kMaxSize));
  } else if (config.hidden_size % config.num_heads == 0) {
    config.head_dim = config.hidden_size / config.num_heads;
  } else {
    return file.Error(absl::StrCat(prefix, "attention.head_count"),
                      absl::StrCat(config.num_heads, " heads do not divide the width ", config.hidden_size));
  }
  if (const std::string key = absl::StrCat(prefix, "attention.value_length"); file.Has(key)) {
    SCD_ASSIGN_OR_RETURN(const std::int64_t value_length, file.Int(key, 1, kMaxSize));
    if (value_length != config.head_dim)
      return file.Error(key, "values narrower or wider than keys are not supported");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ParseGgufConfig(const GgufFile& file) {
  ModelConfig config;
  SCD_ASSIGN_OR_RETURN(config.architecture, ParseArchitecture(file));
  const std::string prefix = absl::StrCat(std::string(ArchitectureName(config.architecture)), ".");
  SCD_RETURN_IF_ERROR(RefuseUnsupported(file, prefix));
  SCD_ASSIGN_OR_RETURN(config.num_layers, file.Int(absl::StrCat(prefix, "block_count"), 1, kMaxLayers));
  SCD_ASSIGN_OR_RETURN(config.hidden_size, file.Int(absl::StrCat(prefix, "embedding_length"), 1, kMaxSize));
  SCD_ASSIGN_OR_RETURN(config.intermediate_size,
                       UniformInt(file, absl::StrCat(prefix, "feed_forward_length")));
  SCD_ASSIGN_OR_RETURN(config.max_positions, file.Int(absl::StrCat(prefix, "context_length"), 1, kMaxSize));
  SCD_ASSIGN_OR_RETURN(config.rms_norm_eps,
                       file.Double(absl::StrCat(prefix, "attention.layer_norm_rms_epsilon"), 0, 1));
  SCD_RETURN_IF_ERROR(ParseHeads(file, prefix, config));

  constexpr char kEmbedding[] = "token_embd.weight";
  const auto embedding = file.tensors().find(kEmbedding);
  if (embedding == file.tensors().end()) return file.Error(kEmbedding, "missing");
  config.vocab_size = embedding->second.shape.rank() == 2 ? embedding->second.shape[0] : 0;
  if (const std::string key = absl::StrCat(prefix, "vocab_size"); file.Has(key)) {
    SCD_ASSIGN_OR_RETURN(const std::int64_t stated, file.Int(key, 1, kMaxSize));
    if (stated != config.vocab_size) {
      return file.Error(key, absl::StrCat("is ", stated, ", but ", kEmbedding, " has shape ",
                                          embedding->second.shape.ToString()));
    }
  }
  const auto has = [&file](const char* tensor) { return file.tensors().contains(tensor); };
  config.tie_word_embeddings = !has("output.weight");
  config.qkv_bias = config.architecture == Architecture::kQwen2 || has("blk.0.attn_q.bias");
  config.o_bias = has("blk.0.attn_output.bias");
  config.mlp_bias = has("blk.0.ffn_gate.bias");
  config.qk_norm = config.architecture == Architecture::kQwen3;

  SCD_ASSIGN_OR_RETURN(config.rope, ParseGgufRope(file, config));
  if (const std::string key = absl::StrCat(prefix, "attention.sliding_window"); file.Has(key)) {
    SCD_ASSIGN_OR_RETURN(const std::int64_t window, file.Int(key, 0, kMaxSize));
    if (window > 0) config.sliding_window.assign(static_cast<std::size_t>(config.num_layers), window);
  }
  SCD_RETURN_IF_ERROR(ParseTokenIds(file, config));
  SCD_RETURN_IF_ERROR(config.Validate(file.path()));
  return config;
}

}  // namespace scd
