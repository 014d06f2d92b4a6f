// Hyper-parameters of a decoder-only transformer, from whatever file they were read.
#ifndef SCD_COMMON_CONFIG_MODEL_CONFIG_H_
#define SCD_COMMON_CONFIG_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace scd {

enum class Architecture : std::uint8_t { kLlama, kMistral, kQwen2, kQwen3 };
std::string_view ArchitectureName(Architecture a);  // "llama", "mistral", "qwen2", "qwen3"

enum class RopeType : std::uint8_t { kDefault, kLinear, kLlama3, kYarn };
std::string_view RopeTypeName(RopeType t);

// Rotary position embedding. Fields beyond theta are read only for the types that use them.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double factor = 1.0;                      // linear, llama3, yarn
  double low_freq_factor = 1.0;             // llama3
  double high_freq_factor = 4.0;            // llama3
  std::int64_t original_max_positions = 0;  // llama3, yarn
  double beta_fast = 32.0;                  // yarn
  double beta_slow = 1.0;                   // yarn
  std::optional<double> attention_factor;   // yarn; absent: derived from factor (and mscale)
  std::optional<double> mscale;             // yarn
  std::optional<double> mscale_all_dim;     // yarn
  bool truncate = true;                     // yarn: round the correction range to whole dimensions

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;        // d_model
  std::int64_t intermediate_size = 0;  // width of the SwiGLU block
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_positions = 0;
  double rms_norm_eps = 1e-5;
  RopeConfig rope;
  // Sliding-window width in tokens of each layer; empty: full attention everywhere; 0 in an entry: full
  // there.
  std::vector<std::int64_t> sliding_window;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;  // Qwen2; Llama with attention_bias
  bool o_bias = false;    // Llama with attention_bias
  bool mlp_bias = false;
  bool qk_norm = false;  // Qwen3: per-head RMSNorm on q and k before RoPE
  std::optional<std::int32_t> bos_token_id;
  std::vector<std::int32_t> eos_token_ids;

  std::int64_t d_kv() const { return num_kv_heads * head_dim; }
  std::int64_t d_q() const { return num_heads * head_dim; }
  // Bytes that one token's K and V take over all layers in bf16: the unit that transfers are compared with.
  std::int64_t raw_kv_bytes_per_token() const { return num_layers * 2 * d_kv() * 2; }

  // Every range and relation that later code relies on (sizes positive and bounded, heads a multiple of
  // kv_heads, even head_dim, theta > 0, ...). `origin` starts the message.
  absl::Status Validate(std::string_view origin) const;

  // Whether KV of one can be translated to the other: same layers, kv_heads, head_dim, hidden size and
  // architecture (llama and mistral count as one: they compute the same, and GGUF stores both as llama).
  // RoPE, window, vocabulary and everything else may differ. FAILED_PRECONDITION names the field.
  absl::Status CheckTranslatable(const ModelConfig& other) const;
};

}  // namespace scd

#endif  // SCD_COMMON_CONFIG_MODEL_CONFIG_H_
