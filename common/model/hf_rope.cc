#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/model/hf_config.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr double kMaxNumber = 1e12;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 40;

absl::StatusOr<RopeType> ParseType(const JsonObject& rope) {
  std::string name = "default";
  const bool has_new = rope.Has("rope_type");
  if (has_new || rope.Has("type")) {
    SCD_ASSIGN_OR_RETURN(name, rope.String(has_new ? "rope_type" : "type"));
  }
  if (has_new && rope.Has("type")) {
    SCD_ASSIGN_OR_RETURN(const std::string old_name, rope.String("type"));
    if (old_name != name) {
      return rope.Error("rope_type", absl::StrCat("\"", absl::CHexEscape(name), "\" contradicts type \"",
                                                  absl::CHexEscape(old_name), "\""));
    }
  }
  for (const RopeType type : {RopeType::kDefault, RopeType::kLinear, RopeType::kLlama3, RopeType::kYarn}) {
    if (name == RopeTypeName(type)) return type;
  }
  return rope.Error(
      has_new ? "rope_type" : "type",
      absl::StrCat("\"", absl::CHexEscape(name), "\" is not supported (default, linear, llama3, yarn are)"));
}

// Every key must be one whose meaning is known, and a partial rotation must not be asked for.
absl::Status CheckKeys(const JsonObject& rope) {
  static constexpr std::array<const char*, 15> kKnown = {"type",
                                                         "rope_type",
                                                         "rope_theta",
                                                         "factor",
                                                         "original_max_position_embeddings",
                                                         "low_freq_factor",
                                                         "high_freq_factor",
                                                         "beta_fast",
                                                         "beta_slow",
                                                         "attention_factor",
                                                         "mscale",
                                                         "mscale_all_dim",
                                                         "truncate",
                                                         "finetuned",
                                                         "partial_rotary_factor"};
  for (const auto& [key, value] : rope.value().items()) {
    const bool known =
        std::any_of(kKnown.begin(), kKnown.end(), [&key = key](const char* k) { return key == k; });
    if (!known && !value.is_null())
      return rope.Error(absl::CHexEscape(key), "this kind of RoPE is not supported");
  }
  return absl::OkStatus();
}

absl::Status RefusePartialRotary(const JsonObject& object) {
  if (!object.Has("partial_rotary_factor")) return absl::OkStatus();
  SCD_ASSIGN_OR_RETURN(const double part, object.Double("partial_rotary_factor", 0, 1));
  if (part != 1.0) return object.Error("partial_rotary_factor", "rotating a part of a head is not supported");
  return absl::OkStatus();
}

// As in transformers, zero means "not given" for the optional numbers of yarn.
absl::StatusOr<std::optional<double>> OptionalPositive(const JsonObject& rope, const char* key) {
  if (!rope.Has(key)) return std::nullopt;
  SCD_ASSIGN_OR_RETURN(const double value, rope.Double(key, 0, kMaxNumber));
  if (value == 0) return std::nullopt;
  return value;
}

absl::StatusOr<std::int64_t> OriginalPositions(const JsonObject& config, const JsonObject& rope,
                                               std::int64_t max_positions) {
  constexpr char kKey[] = "original_max_position_embeddings";
  if (config.Has(kKey)) return config.Int(kKey, 1, kMaxPositions);
  if (rope.Has(kKey)) return rope.Int(kKey, 1, kMaxPositions);
  return max_positions;
}

// One of the two spellings: `rope` is rope_parameters or rope_scaling.
absl::StatusOr<RopeConfig> ParseRopeObject(const JsonObject& config, const JsonObject& rope,
                                           std::int64_t max_positions) {
  for (const auto& [key, value] : rope.value().items()) {
    if (value.is_object()) return rope.Error(absl::CHexEscape(key), "RoPE by kind of layer is not supported");
  }
  SCD_RETURN_IF_ERROR(CheckKeys(rope));
  SCD_RETURN_IF_ERROR(RefusePartialRotary(rope));
  RopeConfig out;
  SCD_ASSIGN_OR_RETURN(out.type, ParseType(rope));
  const JsonObject& theta_holder = rope.Has("rope_theta") ? rope : config;
  if (theta_holder.Has("rope_theta")) {
    SCD_ASSIGN_OR_RETURN(out.theta, theta_holder.Double("rope_theta", -kMaxNumber, kMaxNumber));
  }
  if (out.type == RopeType::kDefault) {
    if (rope.Has("factor")) {
      SCD_ASSIGN_OR_RETURN(const double factor, rope.Double("factor", -kMaxNumber, kMaxNumber));
      if (factor != 1.0) return rope.Error("factor", "is given although the type is default");
    }
    return out;
  }
  if (out.type == RopeType::kLlama3 || out.type == RopeType::kYarn) {
    SCD_ASSIGN_OR_RETURN(out.original_max_positions, OriginalPositions(config, rope, max_positions));
  }
  const bool factor_from_lengths =
      out.type == RopeType::kYarn && rope.Find("factor") != nullptr && !rope.Has("factor");
  if (factor_from_lengths) {
    out.factor = static_cast<double>(max_positions) / static_cast<double>(out.original_max_positions);
  } else {
    SCD_ASSIGN_OR_RETURN(out.factor, rope.Double("factor", 1, kMaxNumber));
  }
  if (out.type == RopeType::kLlama3) {
    SCD_ASSIGN_OR_RETURN(out.low_freq_factor, rope.Double("low_freq_factor", 0, kMaxNumber));
    SCD_ASSIGN_OR_RETURN(out.high_freq_factor, rope.Double("high_freq_factor", 0, kMaxNumber));
  }
  if (out.type == RopeType::kYarn) {
    SCD_ASSIGN_OR_RETURN(const auto beta_fast, OptionalPositive(rope, "beta_fast"));
    SCD_ASSIGN_OR_RETURN(const auto beta_slow, OptionalPositive(rope, "beta_slow"));
    out.beta_fast = beta_fast.value_or(out.beta_fast);
    out.beta_slow = beta_slow.value_or(out.beta_slow);
    SCD_ASSIGN_OR_RETURN(out.mscale, OptionalPositive(rope, "mscale"));
    SCD_ASSIGN_OR_RETURN(out.mscale_all_dim, OptionalPositive(rope, "mscale_all_dim"));
    if (rope.Has("attention_factor")) {
      SCD_ASSIGN_OR_RETURN(out.attention_factor, rope.Double("attention_factor", 0, kMaxNumber));
    }
    if (rope.Has("truncate")) {
      SCD_ASSIGN_OR_RETURN(out.truncate, rope.Bool("truncate"));
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<RopeConfig> ParseHfRope(const JsonObject& config, std::int64_t max_positions) {
  SCD_RETURN_IF_ERROR(RefusePartialRotary(config));
  // An empty object says as little as null does.
  const auto given = [&config](const char* key) { return config.Has(key) && !config.Find(key)->empty(); };
  const bool has_parameters = given("rope_parameters");
  const bool has_scaling = given("rope_scaling");
  if (!has_parameters && !has_scaling) {
    RopeConfig out;
    if (config.Has("rope_theta")) {
      SCD_ASSIGN_OR_RETURN(out.theta, config.Double("rope_theta", -kMaxNumber, kMaxNumber));
    }
    return out;
  }
  SCD_ASSIGN_OR_RETURN(const JsonObject first,
                       config.Object(has_scaling ? "rope_scaling" : "rope_parameters"));
  SCD_ASSIGN_OR_RETURN(const RopeConfig out, ParseRopeObject(config, first, max_positions));
  if (has_parameters && has_scaling) {
    SCD_ASSIGN_OR_RETURN(const JsonObject second, config.Object("rope_parameters"));
    SCD_ASSIGN_OR_RETURN(const RopeConfig other, ParseRopeObject(config, second, max_positions));
    if (!(other == out)) return config.Error("rope_parameters", "contradicts rope_scaling and rope_theta");
  }
  return out;
}

}  // namespace scd
