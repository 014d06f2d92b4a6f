// Chat messages -> prompt text, by the model's own template. Well-known template families are recognised
// exactly; any other template is refused, never guessed.
#ifndef SCD_COMMON_MODEL_CHAT_TEMPLATE_H_
#define SCD_COMMON_MODEL_CHAT_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/tokenizer.h"

namespace scd {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  virtual std::string_view family() const = 0;
  // The prompt text, ending where the assistant's answer begins. Special tokens in it are meant as such:
  // encode with allow_special_tokens and without default tokens. INVALID_ARGUMENT naming the message for an
  // unknown role, an order of roles that the template refuses, and content that spells one of the template's
  // own markers.
  virtual absl::StatusOr<std::string> Render(absl::Span<const ChatMessage> messages) const = 0;
};

// `jinja` is the template's source (tokenizer_config.json chat_template, chat_template.jinja, GGUF
// tokenizer.chat_template). UNIMPLEMENTED with a hint for a template that is not known. bos/eos are the token
// texts that templates insert.
absl::StatusOr<std::unique_ptr<ChatTemplate>> RecogniseChatTemplate(std::string_view jinja,
                                                                    std::string_view bos,
                                                                    std::string_view eos);

// Renders messages and encodes the prompt. INVALID_ARGUMENT naming the message whose content spells a special
// token (any of the tokenizer's, not only those that the template uses).
absl::StatusOr<std::vector<std::int32_t>> EncodeChat(const ChatTemplate& chat_template,
                                                     const Tokenizer& tokenizer,
                                                     absl::Span<const ChatMessage> messages);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_CHAT_TEMPLATE_H_
