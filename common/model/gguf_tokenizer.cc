#include "common/model/gguf_tokenizer.h"

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/model/assembled_tokenizer.h"
#include "common/model/bpe_alphabet.h"
#include "common/model/bpe_encoder.h"
#include "common/model/spm_model_file.h"
#include "common/model/spm_pieces.h"
#include "common/model/spm_score_encoder.h"
#include "common/model/string_views.h"
#include "common/model/tokenizer_config.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr char kTokensKey[] = "tokenizer.ggml.tokens";
constexpr char kTypesKey[] = "tokenizer.ggml.token_type";
constexpr char kScoresKey[] = "tokenizer.ggml.scores";
constexpr char kMergesKey[] = "tokenizer.ggml.merges";
constexpr char kModelKey[] = "tokenizer.ggml.model";
constexpr char kPreKey[] = "tokenizer.ggml.pre";

// The rules behind a name of tokenizer.ggml.pre.
struct PreRules {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

absl::StatusOr<PreRules> RulesOf(const GgufFile& file, const std::string& pre) {
  PreRules rules;
  std::vector<PreTokenizerStep> steps;
  std::string_view pattern = kGpt2Pattern;
  if (pre == "smollm") {
    steps.emplace_back(DigitsStep{.individual = true});
  } else if (pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3") {
    pattern = kLlama3Pattern;
    rules.ignore_merges = true;
    rules.add_bos = true;
  } else if (pre == "qwen2") {
    pattern = kQwen2Pattern;
    rules.normalizer = Normalizer({NfcNormalizer{}});
  } else if (pre != "default" && pre != "gpt-2") {
    return absl::UnimplementedError(absl::StrCat(file.path(), ": ", kPreKey, ": the pre-tokenizer \"",
                                                 absl::CHexEscape(pre), "\" is not supported"));
  }
  SCD_ASSIGN_OR_RETURN(SplitStep split, IsolateMatches(pattern));
  steps.emplace_back(std::move(split));
  rules.pre_tokenizer = PreTokenizer(std::move(steps));
  return rules;
}

absl::StatusOr<bool> BoolOr(const GgufFile& file, const std::string& key, bool otherwise) {
  if (!file.Has(key)) return otherwise;
  return file.Bool(key);
}

// Tokens with types and scores; views into the mapping.
absl::StatusOr<std::vector<SpmPiece>> ReadTokens(const GgufFile& file, bool with_scores) {
  SCD_ASSIGN_OR_RETURN(const auto texts, file.StringArray(kTokensKey));
  if (texts.empty()) return file.Error(kTokensKey, "is empty");
  std::vector<SpmPiece> tokens(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) tokens[i].text = texts[i];
  if (file.Has(kTypesKey)) {
    SCD_ASSIGN_OR_RETURN(const auto types, file.IntArray(kTypesKey));
    if (types.size() != texts.size()) return file.Error(kTypesKey, "has another length than the tokens");
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i] < 1 || types[i] > 6) {
        return file.Error(kTypesKey, absl::StrCat("token ", i, " has the unknown type ", types[i]));
      }
      tokens[i].type = static_cast<PieceType>(types[i]);
    }
  }
  if (with_scores) {
    SCD_ASSIGN_OR_RETURN(const auto scores, file.FloatArray(kScoresKey));
    if (scores.size() != texts.size()) return file.Error(kScoresKey, "has another length than the tokens");
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (!std::isfinite(scores[i]))
        return file.Error(kScoresKey, absl::StrCat("of token ", i, " is not finite"));
      tokens[i].score = scores[i];
    }
  }
  return tokens;
}

// User-defined tokens are found in the text as they are, whether special tokens are allowed or not.
void AddUserDefined(const std::vector<SpmPiece>& tokens, const Vocabulary& vocabulary, bool spm,
                    AddedTokenMap* added) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].type != PieceType::kUserDefined) continue;
    AddedToken token;
    token.id = static_cast<std::int32_t>(i);
    token.content = spm ? vocabulary.Find(token.id)->bytes : std::string(tokens[i].text);
    added->emplace(token.id, std::move(token));
  }
}

absl::Status ReadDefaultTokens(const GgufFile& file, bool add_bos_default, TokenizerParts* parts) {
  const std::int64_t last = parts->vocabulary.size() - 1;
  for (const auto& [key, field] : {std::pair{"tokenizer.ggml.bos_token_id", &parts->bos_id},
                                   std::pair{"tokenizer.ggml.eos_token_id", &parts->eos_id}}) {
    if (!file.Has(key)) continue;
    SCD_ASSIGN_OR_RETURN(const std::int64_t id, file.Int(key, 0, last));
    *field = static_cast<std::int32_t>(id);
  }
  SCD_ASSIGN_OR_RETURN(const bool add_bos, BoolOr(file, "tokenizer.ggml.add_bos_token", add_bos_default));
  SCD_ASSIGN_OR_RETURN(const bool add_eos, BoolOr(file, "tokenizer.ggml.add_eos_token", false));
  if (add_bos && !parts->bos_id)
    return file.Error("tokenizer.ggml.bos_token_id", "missing, but prompts begin with it");
  if (add_eos && !parts->eos_id)
    return file.Error("tokenizer.ggml.eos_token_id", "missing, but prompts end with it");
  if (add_bos) parts->prefix.push_back(*parts->bos_id);
  if (add_eos) parts->suffix.push_back(*parts->eos_id);
  return absl::OkStatus();
}

absl::StatusOr<TokenizerParts> ReadBytePairs(const GgufFile& file) {
  SCD_ASSIGN_OR_RETURN(const std::string pre, file.String(kPreKey));
  SCD_ASSIGN_OR_RETURN(PreRules rules, RulesOf(file, pre));
  SCD_ASSIGN_OR_RETURN(const auto tokens, ReadTokens(file, /*with_scores=*/false));
  SCD_ASSIGN_OR_RETURN(const auto merge_lines, file.StringArray(kMergesKey));
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  merges.reserve(merge_lines.size());
  for (const std::string_view line : merge_lines) {
    const std::size_t space = line.find(' ', 1);  // GPT-2's spelling has no spaces
    if (space == std::string_view::npos) {
      return file.Error(kMergesKey, absl::StrCat("entry ", merges.size(), " is not \"a b\""));
    }
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }

  TokenizerParts parts;
  AddedTokenMap added;
  if (const absl::Status status = AddPieces(tokens, &parts.vocabulary, &added); !status.ok()) {
    return file.Error(kTokensKey, ToStd(status.message()));
  }
  AddUserDefined(tokens, parts.vocabulary, /*spm=*/false, &added);
  for (std::int32_t id = 0; id < parts.vocabulary.size(); ++id) {
    const std::string& text = parts.vocabulary.Find(id)->text;
    parts.vocabulary.SetBytes(id, ByteLevelDecode(text).value_or(text));
  }
  BpeOptions options;
  options.byte_level = true;
  options.ignore_merges = rules.ignore_merges;
  auto model = BpeModel::Create(parts.vocabulary, merges, options);
  if (!model.ok()) return file.Error(kMergesKey, ToStd(model.status().message()));
  parts.encoder = std::make_unique<BpeEncoder>(std::move(rules.normalizer), std::move(rules.pre_tokenizer),
                                               *std::move(model));
  for (auto& [id, token] : added) parts.added.push_back(std::move(token));
  SCD_RETURN_IF_ERROR(ReadDefaultTokens(file, rules.add_bos, &parts));
  return parts;
}

absl::StatusOr<TokenizerParts> ReadScoredPieces(const GgufFile& file) {
  SCD_ASSIGN_OR_RETURN(const auto tokens, ReadTokens(file, /*with_scores=*/true));
  SCD_ASSIGN_OR_RETURN(const bool add_space_prefix, BoolOr(file, "tokenizer.ggml.add_space_prefix", true));
  TokenizerParts parts;
  AddedTokenMap added;
  if (const absl::Status status = AddPieces(tokens, &parts.vocabulary, &added); !status.ok()) {
    return file.Error(kTokensKey, ToStd(status.message()));
  }
  AddUserDefined(tokens, parts.vocabulary, /*spm=*/true, &added);
  SCD_ASSIGN_OR_RETURN(parts.encoder, SpmScoreEncoder::Create(tokens, add_space_prefix));
  for (auto& [id, token] : added) parts.added.push_back(std::move(token));
  parts.strips_leading_space = add_space_prefix;
  SCD_RETURN_IF_ERROR(ReadDefaultTokens(file, /*add_bos_default=*/true, &parts));
  return parts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadGgufTokenizer(const GgufFile& file) {
  SCD_ASSIGN_OR_RETURN(const std::string model, file.String(kModelKey));
  TokenizerParts parts;
  if (model == "gpt2") {
    SCD_ASSIGN_OR_RETURN(parts, ReadBytePairs(file));
  } else if (model == "llama") {
    SCD_ASSIGN_OR_RETURN(parts, ReadScoredPieces(file));
  } else {
    return absl::UnimplementedError(absl::StrCat(file.path(), ": ", kModelKey, ": \"",
                                                 absl::CHexEscape(model),
                                                 "\" is not supported, only \"gpt2\" and \"llama\""));
  }
  auto tokenizer = AssembledTokenizer::Create(std::move(parts));
  if (!tokenizer.ok()) return file.Error(kModelKey, ToStd(tokenizer.status().message()));
  return tokenizer;
}

}  // namespace scd
