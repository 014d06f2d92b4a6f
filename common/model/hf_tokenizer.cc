#include "common/model/hf_tokenizer.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/io/json.h"
#include "common/model/assembled_tokenizer.h"
#include "common/model/bpe_encoder.h"
#include "common/model/hf_pipeline.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using MergeList = std::vector<std::pair<std::string_view, std::string_view>>;

absl::StatusOr<bool> BoolOrFalse(const JsonObject& object, const char* key) {
  if (!object.Has(key)) return false;
  return object.Bool(key);
}

absl::StatusOr<Vocabulary> ParseVocabulary(const JsonObject& model) {
  SCD_ASSIGN_OR_RETURN(const JsonObject vocab, model.Object("vocab"));
  Vocabulary vocabulary;
  for (const auto& [text, value] : vocab.value().items()) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxTokenId)) {
      return vocab.Error(absl::CHexEscape(text),
                         absl::StrCat("expected a token id in [0, ", kMaxTokenId, "]"));
    }
    if (const absl::Status status = vocabulary.Add(value.get<std::int32_t>(), text); !status.ok()) {
      return model.Error("vocab", status.message());
    }
  }
  return vocabulary;
}

// Views into `model`.
absl::StatusOr<MergeList> ParseMerges(const JsonObject& model) {
  const nlohmann::json* list = model.Find("merges");
  if (list == nullptr || !list->is_array()) return model.Error("merges", "expected an array");
  MergeList merges;
  merges.reserve(list->size());
  for (const nlohmann::json& entry : *list) {
    if (entry.is_string()) {
      const std::string_view text = entry.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
        merges.emplace_back(text.substr(0, space), text.substr(space + 1));
        continue;
      }
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      merges.emplace_back(entry[0].get_ref<const std::string&>(), entry[1].get_ref<const std::string&>());
      continue;
    }
    return model.Error("merges",
                       absl::StrCat("entry ", merges.size(), " is neither \"a b\" nor [\"a\", \"b\"]"));
  }
  return merges;
}

absl::Status RefuseUnknownModel(const JsonObject& model) {
  std::string type = "BPE";
  if (model.Has("type")) {
    SCD_ASSIGN_OR_RETURN(type, model.String("type"));
  }
  if (type != "BPE") {
    return absl::UnimplementedError(absl::StrCat(model.path(), ": type: \"", absl::CHexEscape(type),
                                                 "\" is not supported, only \"BPE\""));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.Has(key)) continue;
    SCD_ASSIGN_OR_RETURN(const std::string text, model.String(key));
    if (!text.empty())
      return absl::UnimplementedError(absl::StrCat(model.path(), ": ", key, ": is not supported"));
  }
  if (model.Has("dropout")) {
    SCD_ASSIGN_OR_RETURN(const double dropout, model.Double("dropout", 0.0, 1.0));
    if (dropout != 0.0)
      return absl::UnimplementedError(absl::StrCat(model.path(), ": dropout: is not supported"));
  }
  return absl::OkStatus();
}

absl::StatusOr<BpeOptions> ParseBpeOptions(const JsonObject& model, bool byte_level) {
  BpeOptions options;
  options.byte_level = byte_level;
  SCD_ASSIGN_OR_RETURN(options.ignore_merges, BoolOrFalse(model, "ignore_merges"));
  SCD_ASSIGN_OR_RETURN(options.byte_fallback, BoolOrFalse(model, "byte_fallback"));
  SCD_ASSIGN_OR_RETURN(options.fuse_unknown, BoolOrFalse(model, "fuse_unk"));
  if (model.Has("unk_token")) {
    SCD_ASSIGN_OR_RETURN(options.unknown_token, model.String("unk_token"));
  }
  return options;
}

absl::StatusOr<AddedTokenMap> MergeAddedTokens(const JsonObject& file, Vocabulary* vocabulary) {
  AddedTokenMap added;
  if (!file.Has("added_tokens")) return added;
  const nlohmann::json& list = *file.Find("added_tokens");
  if (!list.is_array()) return file.Error("added_tokens", "expected an array");
  for (const nlohmann::json& entry : list) {
    SCD_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::Create(entry, file.path() + ": added_tokens"));
    SCD_ASSIGN_OR_RETURN(const std::int64_t id, object.Int("id", 0, kMaxTokenId));
    SCD_ASSIGN_OR_RETURN(const AddedToken token, ParseAddedToken(object, static_cast<std::int32_t>(id)));
    if (const absl::Status status = MergeAddedToken(token, vocabulary, &added); !status.ok()) {
      return file.Error("added_tokens", status.message());
    }
  }
  return added;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerJson(const std::string& path,
                                                             const TokenizerConfig& config) {
  SCD_ASSIGN_OR_RETURN(const nlohmann::json document, ParseJsonFile(path));
  SCD_ASSIGN_OR_RETURN(const JsonObject file, JsonObject::Create(document, path));
  SCD_ASSIGN_OR_RETURN(const JsonObject model, file.Object("model"));
  SCD_RETURN_IF_ERROR(RefuseUnknownModel(model));
  SCD_ASSIGN_OR_RETURN(Normalizer normalizer, ParseNormalizer(file));
  SCD_ASSIGN_OR_RETURN(ParsedPreTokenizer pre_tokenizer, ParsePreTokenizer(file));
  SCD_ASSIGN_OR_RETURN(DefaultTokens defaults, ParsePostProcessor(file));
  SCD_ASSIGN_OR_RETURN(const TokenDecoder decoder, ParseDecoder(file, pre_tokenizer.byte_level));
  SCD_ASSIGN_OR_RETURN(const BpeOptions options, ParseBpeOptions(model, pre_tokenizer.byte_level));

  TokenizerParts parts;
  SCD_ASSIGN_OR_RETURN(parts.vocabulary, ParseVocabulary(model));
  SCD_ASSIGN_OR_RETURN(const MergeList merges, ParseMerges(model));
  // Special tokens are known before the model is made, so that no text merges into one.
  SCD_ASSIGN_OR_RETURN(AddedTokenMap added, MergeAddedTokens(file, &parts.vocabulary));
  SCD_RETURN_IF_ERROR(MergeConfigTokens(config, &parts.vocabulary, &added));
  for (auto& [id, token] : added) parts.added.push_back(std::move(token));

  auto bpe = BpeModel::Create(parts.vocabulary, merges, options);
  if (!bpe.ok())
    return absl::Status(bpe.status().code(), absl::StrCat(model.path(), ": ", bpe.status().message()));
  parts.encoder =
      std::make_unique<BpeEncoder>(std::move(normalizer), std::move(pre_tokenizer.steps), *std::move(bpe));
  for (std::int32_t id = 0; id < parts.vocabulary.size(); ++id) {
    if (const Token* token = parts.vocabulary.Find(id))
      parts.vocabulary.SetBytes(id, decoder.Bytes(token->text));
  }
  parts.prefix = std::move(defaults.prefix);
  parts.suffix = std::move(defaults.suffix);
  parts.strips_leading_space = decoder.strips_leading_space;
  SCD_ASSIGN_OR_RETURN(parts.bos_id, NamedTokenId(config, "bos_token", config.bos_token, parts.vocabulary));
  SCD_ASSIGN_OR_RETURN(parts.eos_id, NamedTokenId(config, "eos_token", config.eos_token, parts.vocabulary));
  auto tokenizer = AssembledTokenizer::Create(std::move(parts));
  if (!tokenizer.ok()) {
    return absl::Status(tokenizer.status().code(), absl::StrCat(path, ": ", tokenizer.status().message()));
  }
  return tokenizer;
}

}  // namespace scd
