// tokenizer_config.json and added_tokens.json: what a Hugging Face folder says about its tokenizer beside the
// vocabulary itself.
#ifndef SCD_COMMON_MODEL_TOKENIZER_CONFIG_H_
#define SCD_COMMON_MODEL_TOKENIZER_CONFIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/io/json.h"
#include "common/model/added_tokens.h"
#include "common/model/vocabulary.h"

namespace scd {

using AddedTokenMap = std::map<std::int32_t, AddedToken>;  // by id

struct TokenizerConfig {
  std::string path;  // of tokenizer_config.json, for messages
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::vector<std::string> special_tokens;  // bos, eos, unk, pad and additional ones, each once
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  bool legacy = true;             // SentencePiece's dummy prefix also after special tokens
  std::vector<AddedToken> added;  // of added_tokens_decoder, else of added_tokens.json; by id
};

// Defaults where the folder has neither file. INVALID_ARGUMENT naming file and field for a wrong type or
// value.
absl::StatusOr<TokenizerConfig> LoadTokenizerConfig(const std::string& folder);

// A JSON object of an added token with its flags; missing flags are false.
absl::StatusOr<AddedToken> ParseAddedToken(const JsonObject& object, std::int32_t id);

// Makes the vocabulary hold `token` and notes it in `added`, unless a token of that id is there already.
// INVALID_ARGUMENT where the id or the text belongs to another token.
absl::Status MergeAddedToken(const AddedToken& token, Vocabulary* vocabulary, AddedTokenMap* added);

// Adds config's added tokens, then marks those of special_tokens that the vocabulary has as special added
// tokens.
absl::Status MergeConfigTokens(const TokenizerConfig& config, Vocabulary* vocabulary, AddedTokenMap* added);

// The id of a token that config names; absent where it names none. INVALID_ARGUMENT where the vocabulary
// lacks it.
absl::StatusOr<std::optional<std::int32_t>> NamedTokenId(const TokenizerConfig& config, const char* field,
                                                         const std::optional<std::string>& text,
                                                         const Vocabulary& vocabulary);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_TOKENIZER_CONFIG_H_
