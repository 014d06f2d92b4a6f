#include "common/model/hf_pipeline.h"

#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/model/bpe_alphabet.h"
#include "common/model/string_views.h"
#include "common/model/vocabulary.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kMaxSteps = 64;

absl::Status Unsupported(const JsonObject& object, std::string_view type) {
  return absl::UnimplementedError(
      absl::StrCat(object.path(), ": type: \"", absl::CHexEscape(ToAbsl(type)), "\" is not supported"));
}

absl::StatusOr<bool> BoolOr(const JsonObject& object, const char* key, bool otherwise) {
  if (!object.Has(key)) return otherwise;
  return object.Bool(key);
}

// The objects of a stage in order: those inside its Sequence, itself where it is none, nothing for null.
absl::Status Flatten(const JsonObject& parent, const char* key, const char* list_key,
                     std::vector<JsonObject>* out) {
  if (!parent.Has(key)) return absl::OkStatus();
  SCD_ASSIGN_OR_RETURN(const JsonObject stage, parent.Object(key));
  SCD_ASSIGN_OR_RETURN(const std::string type, stage.String("type"));
  if (type != "Sequence") {
    out->push_back(stage);
    if (out->size() > kMaxSteps) return parent.Error(key, "has too many steps");
    return absl::OkStatus();
  }
  const nlohmann::json* list = stage.Find(list_key);
  if (list == nullptr || !list->is_array()) return stage.Error(list_key, "expected an array");
  for (std::size_t i = 0; i < list->size(); ++i) {
    SCD_ASSIGN_OR_RETURN(
        const JsonObject step,
        JsonObject::Create((*list)[i], absl::StrCat(stage.path(), ": ", list_key, "[", i, "]")));
    SCD_ASSIGN_OR_RETURN(const std::string step_type, step.String("type"));
    if (step_type == "Sequence") return step.Error("type", "a Sequence inside a Sequence is not supported");
    out->push_back(step);
    if (out->size() > kMaxSteps) return stage.Error(list_key, "has too many steps");
  }
  return absl::OkStatus();
}

struct Pattern {
  bool is_regex = false;
  std::string text;
};

// {"String": ...} or {"Regex": ...}.
absl::StatusOr<Pattern> ParsePattern(const JsonObject& step) {
  SCD_ASSIGN_OR_RETURN(const JsonObject object, step.Object("pattern"));
  Pattern pattern;
  pattern.is_regex = object.Has("Regex");
  SCD_ASSIGN_OR_RETURN(pattern.text, object.String(pattern.is_regex ? "Regex" : "String"));
  if (pattern.text.empty()) return step.Error("pattern", "is empty");
  return pattern;
}

absl::StatusOr<std::unique_ptr<Regex>> CompilePattern(const JsonObject& step, std::string_view pattern) {
  auto regex = Regex::Create(pattern);
  if (regex.ok()) return regex;
  return absl::Status(regex.status().code(),
                      absl::StrCat(step.path(), ": pattern: ", regex.status().message()));
}

absl::StatusOr<SplitStep> ParseSplit(const JsonObject& step) {
  SplitStep split;
  SCD_ASSIGN_OR_RETURN(const Pattern pattern, ParsePattern(step));
  if (pattern.is_regex) {
    SCD_ASSIGN_OR_RETURN(split.regex, CompilePattern(step, pattern.text));
  } else {
    split.literal = pattern.text;
  }
  SCD_ASSIGN_OR_RETURN(split.invert, BoolOr(step, "invert", false));
  SCD_ASSIGN_OR_RETURN(const std::string behavior, step.String("behavior"));
  if (behavior == "Removed") {
    split.behavior = SplitBehavior::kRemoved;
  } else if (behavior == "Isolated") {
    split.behavior = SplitBehavior::kIsolated;
  } else if (behavior == "MergedWithPrevious") {
    split.behavior = SplitBehavior::kMergedWithPrevious;
  } else if (behavior == "MergedWithNext") {
    split.behavior = SplitBehavior::kMergedWithNext;
  } else if (behavior == "Contiguous") {
    split.behavior = SplitBehavior::kContiguous;
  } else {
    return step.Error("behavior", absl::StrCat("\"", absl::CHexEscape(behavior), "\" is not known"));
  }
  return split;
}

absl::StatusOr<MetaspaceStep> ParseMetaspace(const JsonObject& step) {
  MetaspaceStep metaspace;
  SCD_ASSIGN_OR_RETURN(metaspace.replacement, step.String("replacement"));
  if (metaspace.replacement.empty()) return step.Error("replacement", "is empty");
  SCD_ASSIGN_OR_RETURN(metaspace.split, BoolOr(step, "split", true));
  std::string scheme = "always";
  if (step.Has("prepend_scheme")) {
    SCD_ASSIGN_OR_RETURN(scheme, step.String("prepend_scheme"));
  } else if (step.Has("add_prefix_space")) {
    SCD_ASSIGN_OR_RETURN(const bool prefix, step.Bool("add_prefix_space"));
    if (!prefix) scheme = "never";
  }
  if (scheme == "always") {
    metaspace.prepend = MetaspaceStep::Prepend::kAlways;
  } else if (scheme == "first") {
    metaspace.prepend = MetaspaceStep::Prepend::kFirst;
  } else if (scheme == "never") {
    metaspace.prepend = MetaspaceStep::Prepend::kNever;
  } else {
    return step.Error("prepend_scheme", absl::StrCat("\"", absl::CHexEscape(scheme), "\" is not known"));
  }
  return metaspace;
}

absl::StatusOr<std::vector<std::int32_t>> TemplateTokenIds(const JsonObject& processor,
                                                           const std::string& name) {
  SCD_ASSIGN_OR_RETURN(const JsonObject tokens, processor.Object("special_tokens"));
  SCD_ASSIGN_OR_RETURN(const JsonObject token, tokens.Object(name.c_str()));
  const nlohmann::json* ids = token.Find("ids");
  if (ids == nullptr || !ids->is_array()) return token.Error("ids", "expected an array of token ids");
  std::vector<std::int32_t> out;
  for (const nlohmann::json& id : *ids) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxTokenId)) {
      return token.Error("ids", absl::StrCat("expected token ids in [0, ", kMaxTokenId, "]"));
    }
    out.push_back(id.get<std::int32_t>());
  }
  return out;
}

absl::StatusOr<DefaultTokens> ParseTemplate(const JsonObject& processor) {
  const nlohmann::json* single = processor.Find("single");
  if (single == nullptr || !single->is_array()) return processor.Error("single", "expected an array");
  DefaultTokens tokens;
  int sequences = 0;
  for (const nlohmann::json& entry : *single) {
    SCD_ASSIGN_OR_RETURN(const JsonObject piece, JsonObject::Create(entry, processor.path() + ": single"));
    if (piece.Has("Sequence")) {
      ++sequences;
      continue;
    }
    SCD_ASSIGN_OR_RETURN(const JsonObject special, piece.Object("SpecialToken"));
    SCD_ASSIGN_OR_RETURN(const std::string name, special.String("id"));
    SCD_ASSIGN_OR_RETURN(const auto ids, TemplateTokenIds(processor, name));
    auto& side = sequences == 0 ? tokens.prefix : tokens.suffix;
    side.insert(side.end(), ids.begin(), ids.end());
    if (side.size() > kMaxSteps) return processor.Error("single", "adds too many tokens");
  }
  if (sequences != 1) return processor.Error("single", "expected exactly one Sequence");
  return tokens;
}

}  // namespace

absl::StatusOr<Normalizer> ParseNormalizer(const JsonObject& file) {
  std::vector<JsonObject> stages;
  SCD_RETURN_IF_ERROR(Flatten(file, "normalizer", "normalizers", &stages));
  std::vector<NormalizerStep> steps;
  for (const JsonObject& stage : stages) {
    SCD_ASSIGN_OR_RETURN(const std::string type, stage.String("type"));
    if (type == "NFC") {
      steps.emplace_back(NfcNormalizer{});
    } else if (type == "Prepend") {
      SCD_ASSIGN_OR_RETURN(std::string text, stage.String("prepend"));
      steps.emplace_back(PrependNormalizer{std::move(text)});
    } else if (type == "Replace") {
      SCD_ASSIGN_OR_RETURN(Pattern pattern, ParsePattern(stage));
      if (pattern.is_regex) {
        return absl::UnimplementedError(
            absl::StrCat(stage.path(), ": pattern: a Regex here is not supported"));
      }
      SCD_ASSIGN_OR_RETURN(std::string content, stage.String("content"));
      steps.emplace_back(ReplaceNormalizer{std::move(pattern.text), std::move(content)});
    } else {
      return Unsupported(stage, type);
    }
  }
  return Normalizer(std::move(steps));
}

absl::StatusOr<ParsedPreTokenizer> ParsePreTokenizer(const JsonObject& file) {
  std::vector<JsonObject> stages;
  SCD_RETURN_IF_ERROR(Flatten(file, "pre_tokenizer", "pretokenizers", &stages));
  std::vector<PreTokenizerStep> steps;
  bool byte_level = false;
  for (const JsonObject& stage : stages) {
    SCD_ASSIGN_OR_RETURN(const std::string type, stage.String("type"));
    if (byte_level) return stage.Error("type", "a step after ByteLevel is not supported");
    if (type == "ByteLevel") {
      byte_level = true;
      SCD_ASSIGN_OR_RETURN(const bool prefix_space, BoolOr(stage, "add_prefix_space", true));
      SCD_ASSIGN_OR_RETURN(const bool use_regex, BoolOr(stage, "use_regex", true));
      if (prefix_space) steps.emplace_back(PrefixSpaceStep{});
      if (use_regex) {
        SCD_ASSIGN_OR_RETURN(SplitStep split, IsolateMatches(kGpt2Pattern));
        steps.emplace_back(std::move(split));
      }
    } else if (type == "Split") {
      SCD_ASSIGN_OR_RETURN(SplitStep split, ParseSplit(stage));
      steps.emplace_back(std::move(split));
    } else if (type == "Digits") {
      SCD_ASSIGN_OR_RETURN(const bool individual, BoolOr(stage, "individual_digits", false));
      steps.emplace_back(DigitsStep{individual});
    } else if (type == "Metaspace") {
      SCD_ASSIGN_OR_RETURN(MetaspaceStep metaspace, ParseMetaspace(stage));
      steps.emplace_back(std::move(metaspace));
    } else {
      return Unsupported(stage, type);
    }
  }
  return ParsedPreTokenizer{PreTokenizer(std::move(steps)), byte_level};
}

absl::StatusOr<DefaultTokens> ParsePostProcessor(const JsonObject& file) {
  std::vector<JsonObject> stages;
  SCD_RETURN_IF_ERROR(Flatten(file, "post_processor", "processors", &stages));
  DefaultTokens tokens;
  bool found = false;
  for (const JsonObject& stage : stages) {
    SCD_ASSIGN_OR_RETURN(const std::string type, stage.String("type"));
    if (type == "ByteLevel") continue;  // moves offsets only
    if (type != "TemplateProcessing") return Unsupported(stage, type);
    if (found) return stage.Error("type", "a second TemplateProcessing is not supported");
    found = true;
    SCD_ASSIGN_OR_RETURN(tokens, ParseTemplate(stage));
  }
  return tokens;
}

absl::StatusOr<TokenDecoder> ParseDecoder(const JsonObject& file, bool byte_level) {
  std::vector<JsonObject> stages;
  SCD_RETURN_IF_ERROR(Flatten(file, "decoder", "decoders", &stages));
  TokenDecoder decoder;
  decoder.byte_level = stages.empty() && byte_level;
  bool fused = false;
  for (const JsonObject& stage : stages) {
    SCD_ASSIGN_OR_RETURN(const std::string type, stage.String("type"));
    if (type == "ByteLevel") {
      decoder.byte_level = true;
    } else if (type == "ByteFallback") {
      decoder.byte_fallback = true;
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Replace") {
      SCD_ASSIGN_OR_RETURN(Pattern pattern, ParsePattern(stage));
      if (pattern.is_regex || decoder.byte_fallback) {
        return absl::UnimplementedError(
            absl::StrCat(stage.path(), ": this kind of Replace is not supported"));
      }
      SCD_ASSIGN_OR_RETURN(std::string content, stage.String("content"));
      decoder.replace.emplace_back(std::move(pattern.text), std::move(content));
    } else if (type == "Strip") {
      SCD_ASSIGN_OR_RETURN(const std::string content, stage.String("content"));
      SCD_ASSIGN_OR_RETURN(const std::int64_t start, stage.Int("start", 0, 1));
      SCD_ASSIGN_OR_RETURN(const std::int64_t stop, stage.Int("stop", 0, 0));
      if (content != " " || !fused || stop != 0) {
        return absl::UnimplementedError(absl::StrCat(stage.path(), ": this kind of Strip is not supported"));
      }
      decoder.strips_leading_space = start == 1;
    } else if (type == "Metaspace") {
      SCD_ASSIGN_OR_RETURN(MetaspaceStep metaspace, ParseMetaspace(stage));
      decoder.replace.emplace_back(std::move(metaspace.replacement), " ");
      decoder.strips_leading_space = metaspace.prepend != MetaspaceStep::Prepend::kNever;
    } else {
      return Unsupported(stage, type);
    }
  }
  return decoder;
}

std::string TokenDecoder::Bytes(std::string_view token_text) const {
  if (byte_level) return ByteLevelDecode(token_text).value_or(std::string(token_text));
  std::string bytes(token_text);
  for (const auto& [from, to] : replace) absl::StrReplaceAll({{from, to}}, &bytes);
  if (const int byte = byte_fallback ? FallbackByte(bytes) : -1; byte >= 0)
    return std::string(1, static_cast<char>(byte));
  return bytes;
}

int FallbackByte(std::string_view token_text) {
  int byte = 0;
  if (token_text.size() != 6 || !token_text.starts_with("<0x") || !token_text.ends_with(">")) return -1;
  if (!absl::SimpleHexAtoi(ToAbsl(token_text.substr(3, 2)), &byte)) return -1;
  return byte;
}

}  // namespace scd
