// Text <-> token ids, exactly as the model was trained: one interface over byte-level BPE (tokenizer.json),
// SentencePiece (tokenizer.model) and the vocabularies inside GGUF files. Immutable and thread-safe.
#ifndef SCD_COMMON_MODEL_TOKENIZER_H_
#define SCD_COMMON_MODEL_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/io/digest.h"

namespace scd {

struct EncodeOptions {
  // Text that spells a special token becomes that token; otherwise it is plain text. (Added tokens that are
  // not special always match.)
  bool allow_special_tokens = false;
  // Adds what the tokenizer adds by default around a prompt (for example <s>).
  bool add_default_tokens = true;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // INVALID_ARGUMENT for text that is not UTF-8.
  virtual absl::StatusOr<std::vector<std::int32_t>> Encode(std::string_view text,
                                                           const EncodeOptions& options) const = 0;

  // The bytes that a token adds to the text, in decoding context: possibly a part of a UTF-8 character. Empty
  // for special tokens unless render_special, and for ids outside the vocabulary.
  virtual std::string TokenBytes(std::int32_t id, bool render_special) const = 0;

  // Whole text of ids as the model's own decoder gives it (special tokens skipped unless render_special);
  // bytes that are not UTF-8 become U+FFFD.
  virtual std::string Decode(absl::Span<const std::int32_t> ids, bool render_special) const = 0;

  // Whether the decoder drops one space at the very start of the text (SentencePiece's dummy prefix).
  virtual bool strips_leading_space() const { return false; }

  // Number of ids, added tokens included (one more than the largest id).
  virtual std::int32_t vocab_size() const = 0;
  // The vocabulary's own spelling of a token ("Ġthe", "▁the", "<|im_end|>"); absent for ids that have none.
  virtual std::optional<std::string> TokenText(std::int32_t id) const = 0;
  virtual std::optional<std::int32_t> TokenId(std::string_view token_text) const = 0;
  virtual bool IsSpecial(std::int32_t id) const = 0;
  virtual std::optional<std::int32_t> bos_id() const = 0;
  virtual std::optional<std::int32_t> eos_id() const = 0;

  // "scd.tokenizer.v1" over the id -> token table, merges or pieces, and the normaliser's and pre-tokenizer's
  // rules. Two files that tokenize alike by the same rules have one digest whatever format they came in,
  // where feasible.
  virtual const Digest& digest() const = 0;
};

// tokenizer.json, else tokenizer.model, in a Hugging Face model folder. NOT_FOUND where there is neither.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& model_folder);

// Ids of `consumer` that `producer` lacks or maps to other text, sorted: prompts with one of them are never
// translated. FAILED_PRECONDITION where the two differ in more than added tokens (over 1 % of the ids).
absl::StatusOr<std::vector<std::int32_t>> UntranslatableIds(const Tokenizer& producer,
                                                            const Tokenizer& consumer);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_TOKENIZER_H_
