#include "common/model/tokenizer_config.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/io/json.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

bool FileExists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

absl::StatusOr<bool> BoolOr(const JsonObject& object, const char* key, bool otherwise) {
  if (!object.Has(key)) return otherwise;
  return object.Bool(key);
}

// A token given as its text or as an object with "content".
absl::StatusOr<std::string> TokenContent(const JsonObject& object, const char* key) {
  if (!object.Find(key)->is_object()) return object.String(key);
  SCD_ASSIGN_OR_RETURN(const JsonObject token, object.Object(key));
  return token.String("content");
}

absl::StatusOr<std::int32_t> ParseId(const JsonObject& object, const std::string& key) {
  std::int32_t id = 0;
  if (!absl::SimpleAtoi(key, &id) || id < 0 || id > kMaxTokenId) {
    return object.Error(key, absl::StrCat("expected a token id in [0, ", kMaxTokenId, "]"));
  }
  return id;
}

absl::Status ReadSpecialTokens(const JsonObject& object, TokenizerConfig* config) {
  for (const char* key :
       {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"}) {
    if (!object.Has(key)) continue;
    SCD_ASSIGN_OR_RETURN(std::string text, TokenContent(object, key));
    if (text.empty()) continue;
    if (std::string_view(key) == "bos_token") config->bos_token = text;
    if (std::string_view(key) == "eos_token") config->eos_token = text;
    config->special_tokens.push_back(std::move(text));
  }
  if (object.Has("additional_special_tokens")) {
    const nlohmann::json& list = *object.Find("additional_special_tokens");
    if (!list.is_array()) return object.Error("additional_special_tokens", "expected an array");
    for (const nlohmann::json& entry : list) {
      if (entry.is_string()) {
        config->special_tokens.push_back(entry.get<std::string>());
        continue;
      }
      SCD_ASSIGN_OR_RETURN(
          const JsonObject token,
          JsonObject::Create(entry, absl::StrCat(object.path(), ": additional_special_tokens")));
      SCD_ASSIGN_OR_RETURN(config->special_tokens.emplace_back(), token.String("content"));
    }
  }
  std::sort(config->special_tokens.begin(), config->special_tokens.end());
  config->special_tokens.erase(std::unique(config->special_tokens.begin(), config->special_tokens.end()),
                               config->special_tokens.end());
  return absl::OkStatus();
}

absl::Status ReadAddedTokensDecoder(const JsonObject& object, TokenizerConfig* config) {
  if (!object.Has("added_tokens_decoder")) return absl::OkStatus();
  SCD_ASSIGN_OR_RETURN(const JsonObject decoder, object.Object("added_tokens_decoder"));
  for (const auto& [key, value] : decoder.value().items()) {
    SCD_ASSIGN_OR_RETURN(const std::int32_t id, ParseId(decoder, key));
    SCD_ASSIGN_OR_RETURN(const JsonObject entry,
                         JsonObject::Create(value, absl::StrCat(decoder.path(), ": ", key)));
    SCD_ASSIGN_OR_RETURN(config->added.emplace_back(), ParseAddedToken(entry, id));
  }
  return absl::OkStatus();
}

absl::Status ReadAddedTokensJson(const std::string& path, TokenizerConfig* config) {
  SCD_ASSIGN_OR_RETURN(const nlohmann::json document, ParseJsonFile(path));
  SCD_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::Create(document, path));
  for (const auto& [text, value] : document.items()) {
    AddedToken token;
    SCD_ASSIGN_OR_RETURN(const std::int64_t id, object.Int(text.c_str(), 0, kMaxTokenId));
    token.id = static_cast<std::int32_t>(id);
    token.content = text;
    config->added.push_back(std::move(token));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AddedToken> ParseAddedToken(const JsonObject& object, std::int32_t id) {
  AddedToken token;
  token.id = id;
  SCD_ASSIGN_OR_RETURN(token.content, object.String("content"));
  SCD_ASSIGN_OR_RETURN(token.special, BoolOr(object, "special", false));
  SCD_ASSIGN_OR_RETURN(token.lstrip, BoolOr(object, "lstrip", false));
  SCD_ASSIGN_OR_RETURN(token.rstrip, BoolOr(object, "rstrip", false));
  SCD_ASSIGN_OR_RETURN(token.single_word, BoolOr(object, "single_word", false));
  SCD_ASSIGN_OR_RETURN(token.normalized, BoolOr(object, "normalized", false));
  return token;
}

absl::StatusOr<TokenizerConfig> LoadTokenizerConfig(const std::string& folder) {
  TokenizerConfig config;
  config.path = folder + "/tokenizer_config.json";
  if (FileExists(config.path)) {
    SCD_ASSIGN_OR_RETURN(const nlohmann::json document, ParseJsonFile(config.path));
    SCD_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::Create(document, config.path));
    SCD_RETURN_IF_ERROR(ReadSpecialTokens(object, &config));
    SCD_RETURN_IF_ERROR(ReadAddedTokensDecoder(object, &config));
    for (const auto& [key, field] : {std::pair{"add_bos_token", &config.add_bos_token},
                                     std::pair{"add_eos_token", &config.add_eos_token}}) {
      if (!object.Has(key)) continue;
      SCD_ASSIGN_OR_RETURN(*field, object.Bool(key));
    }
    SCD_ASSIGN_OR_RETURN(config.legacy, BoolOr(object, "legacy", true));
  }
  const std::string added_path = folder + "/added_tokens.json";
  if (config.added.empty() && FileExists(added_path))
    SCD_RETURN_IF_ERROR(ReadAddedTokensJson(added_path, &config));
  std::sort(config.added.begin(), config.added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return config;
}

absl::Status MergeAddedToken(const AddedToken& token, Vocabulary* vocabulary, AddedTokenMap* added) {
  const Token* present = vocabulary->Find(token.id);
  if (present == nullptr || present->text != token.content) {
    SCD_RETURN_IF_ERROR(vocabulary->Add(token.id, token.content));
  }
  if (token.special) vocabulary->SetSpecial(token.id);
  added->emplace(token.id, token);
  return absl::OkStatus();
}

absl::Status MergeConfigTokens(const TokenizerConfig& config, Vocabulary* vocabulary, AddedTokenMap* added) {
  for (const AddedToken& token : config.added) {
    if (const absl::Status status = MergeAddedToken(token, vocabulary, added); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(config.path, ": added tokens: ", status.message()));
    }
  }
  for (const std::string& text : config.special_tokens) {
    const auto id = vocabulary->Id(text);
    if (!id) continue;  // the model has no embedding for it either
    vocabulary->SetSpecial(*id);
    AddedToken& token = (*added)[*id];
    token.id = *id;
    token.content = text;
    token.special = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::int32_t>> NamedTokenId(const TokenizerConfig& config, const char* field,
                                                         const std::optional<std::string>& text,
                                                         const Vocabulary& vocabulary) {
  if (!text) return std::nullopt;
  const auto id = vocabulary.Id(*text);
  if (!id) {
    return absl::InvalidArgumentError(absl::StrCat(config.path, ": ", field, ": \"", absl::CHexEscape(*text),
                                                   "\" is not in the vocabulary"));
  }
  return id;
}

}  // namespace scd
