// The one Tokenizer: a vocabulary, a TextEncoder and what stands around it, put together by the loaders of
// the several file formats.
#ifndef SCD_COMMON_MODEL_ASSEMBLED_TOKENIZER_H_
#define SCD_COMMON_MODEL_ASSEMBLED_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/io/digest.h"
#include "common/model/added_tokens.h"
#include "common/model/text_encoder.h"
#include "common/model/tokenizer.h"
#include "common/model/vocabulary.h"

namespace scd {

struct TokenizerParts {
  Vocabulary vocabulary;  // added tokens included, with their bytes and special flags set
  std::unique_ptr<TextEncoder> encoder;
  std::vector<AddedToken> added;
  std::vector<std::int32_t> prefix;  // default tokens before a prompt
  std::vector<std::int32_t> suffix;  // and after it
  std::optional<std::int32_t> bos_id;
  std::optional<std::int32_t> eos_id;
  bool strips_leading_space = false;  // the decoder drops one space at the very start
};

class AssembledTokenizer : public Tokenizer {
 public:
  // INVALID_ARGUMENT where an id of parts is not in the vocabulary.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(TokenizerParts parts);

  absl::StatusOr<std::vector<std::int32_t>> Encode(std::string_view text,
                                                   const EncodeOptions& options) const override;
  std::string TokenBytes(std::int32_t id, bool render_special) const override;
  std::string Decode(absl::Span<const std::int32_t> ids, bool render_special) const override;
  bool strips_leading_space() const override { return parts_.strips_leading_space; }
  std::int32_t vocab_size() const override { return parts_.vocabulary.size(); }
  std::optional<std::string> TokenText(std::int32_t id) const override;
  std::optional<std::int32_t> TokenId(std::string_view token_text) const override;
  bool IsSpecial(std::int32_t id) const override;
  std::optional<std::int32_t> bos_id() const override { return parts_.bos_id; }
  std::optional<std::int32_t> eos_id() const override { return parts_.eos_id; }
  const Digest& digest() const override { return digest_; }

 private:
  // The matchers of one value of allow_special_tokens.
  struct Matchers {
    AddedTokenMatcher raw;
    AddedTokenMatcher normalized;
  };

  explicit AssembledTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {}
  absl::StatusOr<Matchers> MakeMatchers(bool allow_special) const;

  TokenizerParts parts_;
  Matchers with_special_;
  Matchers without_special_;
  Digest digest_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_ASSEMBLED_TOKENIZER_H_
