#include "common/config/model_config.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Bounds that no known model comes near; they keep every product of sizes far from overflow.
constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kMaxHidden = std::int64_t{1} << 17;
constexpr std::int64_t kMaxIntermediate = std::int64_t{1} << 20;
constexpr std::int64_t kMaxHeads = 4096;
constexpr std::int64_t kMaxHeadDim = 2048;
constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 24;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 24;

class Checker {
 public:
  explicit Checker(std::string_view origin) : origin_(origin) {}

  absl::Status Fail(absl::string_view field, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(origin_, ": ", field, ": ", what));
  }
  absl::Status InRange(absl::string_view field, std::int64_t value, std::int64_t max) const {
    if (value >= 1 && value <= max) return absl::OkStatus();
    return Fail(field, absl::StrCat("expected a value in [1, ", max, "], got ", value));
  }
  absl::Status AtLeast(absl::string_view field, double value, double min) const {
    if (std::isfinite(value) && value >= min) return absl::OkStatus();
    return Fail(field, absl::StrCat("expected at least ", min, ", got ", value));
  }
  absl::Status Positive(absl::string_view field, double value) const {
    if (std::isfinite(value) && value > 0) return absl::OkStatus();
    return Fail(field, absl::StrCat("expected a positive number, got ", value));
  }

 private:
  std::string origin_;
};

absl::Status ValidateRope(const RopeConfig& rope, const Checker& check) {
  if (!std::isfinite(rope.theta) || rope.theta <= 1) {
    return check.Fail("rope_theta", absl::StrCat("expected a number above 1, got ", rope.theta));
  }
  if (rope.type == RopeType::kDefault) return absl::OkStatus();
  SCD_RETURN_IF_ERROR(check.AtLeast("rope factor", rope.factor, 1));
  if (rope.type == RopeType::kLinear) return absl::OkStatus();
  SCD_RETURN_IF_ERROR(
      check.InRange("rope original_max_position_embeddings", rope.original_max_positions, kMaxPositions));
  if (rope.type == RopeType::kLlama3) {
    SCD_RETURN_IF_ERROR(check.Positive("rope low_freq_factor", rope.low_freq_factor));
    SCD_RETURN_IF_ERROR(check.Positive("rope high_freq_factor", rope.high_freq_factor));
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      return check.Fail("rope high_freq_factor",
                        absl::StrCat("expected more than low_freq_factor ", rope.low_freq_factor, ", got ",
                                     rope.high_freq_factor));
    }
    return absl::OkStatus();
  }
  SCD_RETURN_IF_ERROR(check.Positive("rope beta_fast", rope.beta_fast));
  SCD_RETURN_IF_ERROR(check.Positive("rope beta_slow", rope.beta_slow));
  if (rope.beta_fast <= rope.beta_slow) {
    return check.Fail("rope beta_fast", absl::StrCat("expected more than beta_slow ", rope.beta_slow,
                                                     ", got ", rope.beta_fast));
  }
  if (rope.attention_factor)
    SCD_RETURN_IF_ERROR(check.Positive("rope attention_factor", *rope.attention_factor));
  if (rope.mscale) SCD_RETURN_IF_ERROR(check.Positive("rope mscale", *rope.mscale));
  if (rope.mscale_all_dim) SCD_RETURN_IF_ERROR(check.Positive("rope mscale_all_dim", *rope.mscale_all_dim));
  return absl::OkStatus();
}

// GGUF stores Mistral models as llama, and the two compute the same.
bool SameFamily(Architecture a, Architecture b) {
  const auto family = [](Architecture x) { return x == Architecture::kMistral ? Architecture::kLlama : x; };
  return family(a) == family(b);
}

}  // namespace

std::string_view ArchitectureName(Architecture a) {
  switch (a) {
    case Architecture::kLlama:
      return "llama";
    case Architecture::kMistral:
      return "mistral";
    case Architecture::kQwen2:
      return "qwen2";
    case Architecture::kQwen3:
      return "qwen3";
  }
  return "unknown";
}

std::string_view RopeTypeName(RopeType t) {
  switch (t) {
    case RopeType::kDefault:
      return "default";
    case RopeType::kLinear:
      return "linear";
    case RopeType::kLlama3:
      return "llama3";
    case RopeType::kYarn:
      return "yarn";
  }
  return "unknown";
}

absl::Status ModelConfig::Validate(std::string_view origin) const {
  const Checker check(origin);
  SCD_RETURN_IF_ERROR(check.InRange("number of layers", num_layers, kMaxLayers));
  SCD_RETURN_IF_ERROR(check.InRange("hidden size", hidden_size, kMaxHidden));
  SCD_RETURN_IF_ERROR(check.InRange("intermediate size", intermediate_size, kMaxIntermediate));
  SCD_RETURN_IF_ERROR(check.InRange("number of attention heads", num_heads, kMaxHeads));
  SCD_RETURN_IF_ERROR(check.InRange("number of key-value heads", num_kv_heads, kMaxHeads));
  SCD_RETURN_IF_ERROR(check.InRange("head_dim", head_dim, kMaxHeadDim));
  SCD_RETURN_IF_ERROR(check.InRange("vocabulary size", vocab_size, kMaxVocabulary));
  SCD_RETURN_IF_ERROR(check.InRange("max_position_embeddings", max_positions, kMaxPositions));
  if (num_heads % num_kv_heads != 0) {
    return check.Fail("number of attention heads", absl::StrCat(num_heads, " is not a multiple of the ",
                                                                num_kv_heads, " key-value heads"));
  }
  if (head_dim % 2 != 0) {
    return check.Fail("head_dim", absl::StrCat("rotary embedding needs an even value, got ", head_dim));
  }
  SCD_RETURN_IF_ERROR(check.InRange("width of all heads", d_q(), kMaxHidden));
  if (!(rms_norm_eps > 0 && rms_norm_eps < 1)) {
    return check.Fail("rms_norm_eps", absl::StrCat("expected a number in (0, 1), got ", rms_norm_eps));
  }
  SCD_RETURN_IF_ERROR(ValidateRope(rope, check));
  if (!sliding_window.empty() && static_cast<std::int64_t>(sliding_window.size()) != num_layers) {
    return check.Fail("sliding window",
                      absl::StrCat("has ", sliding_window.size(), " entries for ", num_layers, " layers"));
  }
  for (const std::int64_t width : sliding_window) {
    if (width < 0) return check.Fail("sliding window", absl::StrCat("expected at least 0, got ", width));
  }
  if (bos_token_id && *bos_token_id < 0)
    return check.Fail("bos_token_id", absl::StrCat("is negative: ", *bos_token_id));
  for (const std::int32_t id : eos_token_ids) {
    if (id < 0) return check.Fail("eos_token_id", absl::StrCat("is negative: ", id));
  }
  return absl::OkStatus();
}

absl::Status ModelConfig::CheckTranslatable(const ModelConfig& other) const {
  if (!SameFamily(architecture, other.architecture)) {
    return absl::FailedPreconditionError(
        absl::StrCat("architecture differs: ", std::string(ArchitectureName(architecture)), " against ",
                     std::string(ArchitectureName(other.architecture))));
  }
  const auto same = [](absl::string_view field, std::int64_t a, std::int64_t b) {
    if (a == b) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(field, " differs: ", a, " against ", b));
  };
  SCD_RETURN_IF_ERROR(same("number of layers", num_layers, other.num_layers));
  SCD_RETURN_IF_ERROR(same("number of key-value heads", num_kv_heads, other.num_kv_heads));
  SCD_RETURN_IF_ERROR(same("head_dim", head_dim, other.head_dim));
  return same("hidden size", hidden_size, other.hidden_size);
}

}  // namespace scd
