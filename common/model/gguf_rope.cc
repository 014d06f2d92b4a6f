#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/model/gguf_model.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr char kFactorsTensor[] = "rope_freqs.weight";
constexpr double kMaxNumber = 1e12;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 40;

// What Llama 3's scaling divides the frequency of pair i by.
double Llama3Divisor(const RopeConfig& rope, std::int64_t head_dim, std::int64_t i) {
  const double frequency =
      std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  const double turns = static_cast<double>(rope.original_max_positions) * frequency / (2 * std::numbers::pi);
  if (turns > rope.high_freq_factor) return 1;
  if (turns < rope.low_freq_factor) return rope.factor;
  const double smooth = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return 1 / ((1 - smooth) / rope.factor + smooth);
}

// Writers keep only the divisors that Llama 3's parameters give. The published models all have low 1, high 4
// and 8192 original positions; whether those and the largest divisor explain every value is then a matter of
// comparing.
absl::Status HonourFactors(const GgufFile& file, const ModelConfig& config, std::int64_t original,
                           RopeConfig& rope) {
  SCD_ASSIGN_OR_RETURN(const GgufTensor tensor, file.Tensor(kFactorsTensor));
  const std::int64_t pairs = config.head_dim / 2;
  if (tensor.type != GgmlType::kF32 || !(tensor.shape == Shape{pairs})) {
    return file.Error(kFactorsTensor, absl::StrCat("expected f32 [", pairs, "], got ",
                                                   GgmlTypeName(tensor.type), " ", tensor.shape.ToString()));
  }
  std::vector<float> divisors(static_cast<std::size_t>(pairs));
  DequantiseBlocks(tensor.type, tensor.data.data(), pairs, divisors.data());
  double largest = 1;
  bool all_one = true;
  for (const float divisor : divisors) {
    if (!(divisor >= 1) || !std::isfinite(divisor))
      return file.Error(kFactorsTensor, "a factor is below 1 or not finite");
    largest = std::max(largest, static_cast<double>(divisor));
    all_one = all_one && divisor == 1;
  }
  if (all_one) return absl::OkStatus();
  if (rope.type != RopeType::kDefault)
    return file.Error(kFactorsTensor, "stands beside another RoPE scaling");
  rope.type = RopeType::kLlama3;
  rope.factor = largest;
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 4;
  rope.original_max_positions = original;
  constexpr double kTolerance = 1e-3;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double expected = Llama3Divisor(rope, config.head_dim, i);
    if (std::abs(divisors[static_cast<std::size_t>(i)] - expected) > kTolerance * expected) {
      return file.Error(
          kFactorsTensor,
          absl::StrCat("is not Llama 3's scaling (pair ", i, " has ", divisors[static_cast<std::size_t>(i)],
                       ", expected ", expected, "); other frequency factors are not supported"));
    }
  }
  return absl::OkStatus();
}

absl::Status ParseYarn(const GgufFile& file, const std::string& prefix, RopeConfig& rope) {
  const auto number = [&](const char* key, double otherwise) -> absl::StatusOr<double> {
    const std::string name = absl::StrCat(prefix, key);
    if (!file.Has(name)) return otherwise;
    return file.Double(name, -kMaxNumber, kMaxNumber);
  };
  SCD_ASSIGN_OR_RETURN(rope.beta_fast, number("yarn_beta_fast", rope.beta_fast));
  SCD_ASSIGN_OR_RETURN(rope.beta_slow, number("yarn_beta_slow", rope.beta_slow));
  SCD_ASSIGN_OR_RETURN(const double ramp, number("yarn_ext_factor", 1));
  if (ramp != 1 && ramp != -1)
    return file.Error(absl::StrCat(prefix, "yarn_ext_factor"), "only 1 is supported");
  SCD_ASSIGN_OR_RETURN(const double log_multiplier, number("yarn_log_multiplier", 0));
  if (log_multiplier != 0) return file.Error(absl::StrCat(prefix, "yarn_log_multiplier"), "is not supported");
  SCD_ASSIGN_OR_RETURN(const double attention, number("attn_factor", 1));
  SCD_ASSIGN_OR_RETURN(const double yarn_attention, number("yarn_attn_factor", 1));
  // In GGUF this factor multiplies what yarn itself gives; in RopeConfig it replaces it.
  const double extra = attention * yarn_attention;
  if (extra != 1) rope.attention_factor = extra * (1 + 0.1 * std::log(rope.factor));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RopeConfig> ParseGgufRope(const GgufFile& file, const ModelConfig& config) {
  SCD_ASSIGN_OR_RETURN(const std::string architecture, file.String("general.architecture"));
  const std::string rope_prefix = absl::StrCat(architecture, ".rope.");
  const std::string scaling = absl::StrCat(rope_prefix, "scaling.");
  RopeConfig rope;
  if (const std::string key = absl::StrCat(rope_prefix, "freq_base"); file.Has(key)) {
    SCD_ASSIGN_OR_RETURN(rope.theta, file.Double(key, -kMaxNumber, kMaxNumber));
  }
  if (const std::string key = absl::StrCat(rope_prefix, "dimension_count"); file.Has(key)) {
    SCD_ASSIGN_OR_RETURN(const std::int64_t rotated, file.Int(key, 1, kMaxPositions));
    if (rotated != config.head_dim) {
      return file.Error(key, absl::StrCat("rotating ", rotated, " of the ", config.head_dim,
                                          " elements of a head is not supported"));
    }
  }
  std::string type = "none";
  if (const std::string key = absl::StrCat(scaling, "type"); file.Has(key)) {
    SCD_ASSIGN_OR_RETURN(type, file.String(key));
    if (type != "none" && type != "linear" && type != "yarn") {
      return file.Error(
          key, absl::StrCat("\"", absl::CHexEscape(type), "\" is not supported (none, linear, yarn are)"));
    }
  }
  for (const char* key : {"alpha", "short_mscale", "long_mscale"}) {
    if (file.Has(absl::StrCat(scaling, key)))
      return file.Error(absl::StrCat(scaling, key), "is not supported");
  }
  double factor = 1;
  for (const std::string& key :
       {absl::StrCat(rope_prefix, "scale_linear"), absl::StrCat(scaling, "factor")}) {
    if (!file.Has(key)) continue;
    SCD_ASSIGN_OR_RETURN(factor, file.Double(key, 0, kMaxNumber));
    if (factor == 0) factor = 1;  // writers use zero for "none"
  }
  std::int64_t original = 0;
  if (const std::string key = absl::StrCat(scaling, "original_context_length"); file.Has(key)) {
    SCD_ASSIGN_OR_RETURN(original, file.Int(key, 1, kMaxPositions));
  }
  if (factor != 1 && type == "none" && file.Has(absl::StrCat(scaling, "type"))) {
    return file.Error(absl::StrCat(scaling, "factor"), "is given although the type is none");
  }
  // Files from before the type was written have only the old linear factor.
  if (type == "linear" || (type == "none" && factor != 1)) {
    rope.type = factor == 1 ? RopeType::kDefault : RopeType::kLinear;
    rope.factor = factor;
  } else if (type == "yarn") {
    rope.type = RopeType::kYarn;
    rope.factor = factor;
    rope.original_max_positions = original != 0 ? original : config.max_positions;
    SCD_RETURN_IF_ERROR(ParseYarn(file, scaling, rope));
  }
  if (file.tensors().contains(kFactorsTensor)) {
    constexpr std::int64_t kPublishedOriginal = 8192;
    SCD_RETURN_IF_ERROR(HonourFactors(file, config, original != 0 ? original : kPublishedOriginal, rope));
  }
  return rope;
}

}  // namespace scd
