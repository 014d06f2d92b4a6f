// The prompt of a request -> token ids: plain text, ids as they are, or chat messages through the model's
// template.
#ifndef SCD_CONSUMER_PROMPT_ENCODER_H_
#define SCD_CONSUMER_PROMPT_ENCODER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/chat_template.h"
#include "common/model/tokenizer.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

// Immutable and thread-safe.
class PromptEncoder {
 public:
  // `tokenizer` outlives this. chat_template_source: the model's own template, empty where it brings none;
  // one that is not recognised is refused when a request needs it. max_tokens: of a prompt.
  PromptEncoder(const Tokenizer& tokenizer, std::string_view chat_template_source, std::int64_t max_tokens);

  // INVALID_ARGUMENT naming the field; UNIMPLEMENTED or FAILED_PRECONDITION for chat that this model cannot
  // do.
  absl::StatusOr<std::vector<std::int32_t>> Encode(const v1::Prompt& prompt) const;

  // Text that continues a prompt: no default tokens, no special tokens.
  absl::StatusOr<std::vector<std::int32_t>> EncodeContinuation(const std::string& text) const;

  // OK, or INVALID_ARGUMENT naming `field` and the first id outside the vocabulary.
  absl::Status CheckIds(std::string_view field, absl::Span<const std::int32_t> ids) const;

 private:
  absl::Status CheckTextSize(std::string_view field, std::size_t bytes) const;
  absl::StatusOr<std::vector<std::int32_t>> EncodeMessages(const v1::Chat& chat) const;

  const Tokenizer& tokenizer_;
  const std::int64_t max_tokens_;
  std::size_t max_text_bytes_;  // longer text cannot be max_tokens_ or fewer tokens
  absl::StatusOr<std::unique_ptr<ChatTemplate>> chat_template_;
};

}  // namespace scd

#endif  // SCD_CONSUMER_PROMPT_ENCODER_H_
