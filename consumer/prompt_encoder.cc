#include "consumer/prompt_encoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr int kMaxChatMessages = 1024;
// Normalisation may shorten text: composing makes one character of three code points.
constexpr std::size_t kMaxShrinking = 4;

absl::StatusOr<std::unique_ptr<ChatTemplate>> MakeChatTemplate(const Tokenizer& tokenizer,
                                                               std::string_view source) {
  if (source.empty()) return absl::FailedPreconditionError("this model brings no chat template");
  const auto text_of = [&tokenizer](std::optional<std::int32_t> id) {
    return id ? tokenizer.TokenText(*id).value_or("") : std::string();
  };
  return RecogniseChatTemplate(source, text_of(tokenizer.bos_id()), text_of(tokenizer.eos_id()));
}

std::size_t LongestTokenBytes(const Tokenizer& tokenizer) {
  std::size_t longest = 1;
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    longest = std::max(longest, tokenizer.TokenBytes(id, /*render_special=*/true).size());
  }
  return longest;
}

}  // namespace

PromptEncoder::PromptEncoder(const Tokenizer& tokenizer, std::string_view chat_template_source,
                             std::int64_t max_tokens)
    : tokenizer_(tokenizer),
      max_tokens_(max_tokens),
      max_text_bytes_(static_cast<std::size_t>(max_tokens) * LongestTokenBytes(tokenizer) * kMaxShrinking),
      chat_template_(MakeChatTemplate(tokenizer, chat_template_source)) {}

absl::StatusOr<std::vector<std::int32_t>> PromptEncoder::Encode(const v1::Prompt& prompt) const {
  std::vector<std::int32_t> ids;
  switch (prompt.kind_case()) {
    case v1::Prompt::kText: {
      SCD_RETURN_IF_ERROR(CheckTextSize("prompt.text", prompt.text().size()));
      SCD_ASSIGN_OR_RETURN(
          ids, tokenizer_.Encode(prompt.text(), {.allow_special_tokens = prompt.allow_special_tokens()}));
      break;
    }
    case v1::Prompt::kTokens:
      ids.assign(prompt.tokens().ids().begin(), prompt.tokens().ids().end());
      SCD_RETURN_IF_ERROR(CheckIds("prompt.tokens.ids", ids));
      break;
    case v1::Prompt::kChat: {
      SCD_ASSIGN_OR_RETURN(ids, EncodeMessages(prompt.chat()));
      break;
    }
    case v1::Prompt::KIND_NOT_SET:
      return absl::InvalidArgumentError("prompt: is missing; give text, tokens or chat");
  }
  if (ids.empty()) return absl::InvalidArgumentError("prompt: is empty");
  if (static_cast<std::int64_t>(ids.size()) > max_tokens_) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt: has ", ids.size(), " tokens, at most ", max_tokens_, " are served"));
  }
  return ids;
}

absl::StatusOr<std::vector<std::int32_t>> PromptEncoder::EncodeContinuation(const std::string& text) const {
  SCD_RETURN_IF_ERROR(CheckTextSize("text", text.size()));
  return tokenizer_.Encode(text, {.allow_special_tokens = false, .add_default_tokens = false});
}

absl::Status PromptEncoder::CheckIds(std::string_view field, absl::Span<const std::int32_t> ids) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < tokenizer_.vocab_size()) continue;
    return absl::InvalidArgumentError(absl::StrCat(std::string(field), "[", i, "]: ", ids[i],
                                                   " is no token id, expected 0 .. ",
                                                   tokenizer_.vocab_size() - 1));
  }
  return absl::OkStatus();
}

absl::Status PromptEncoder::CheckTextSize(std::string_view field, std::size_t bytes) const {
  if (bytes <= max_text_bytes_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(std::string(field), ": is ", bytes,
                                                 " bytes long, which is more than ", max_tokens_,
                                                 " tokens, the most that are served"));
}

absl::StatusOr<std::vector<std::int32_t>> PromptEncoder::EncodeMessages(const v1::Chat& chat) const {
  if (!chat_template_.ok()) {
    return absl::Status(chat_template_.status().code(),
                        absl::StrCat("prompt.chat: ", chat_template_.status().message()));
  }
  if (chat.messages_size() == 0 || chat.messages_size() > kMaxChatMessages) {
    return absl::InvalidArgumentError(absl::StrCat("prompt.chat.messages: has ", chat.messages_size(),
                                                   " messages, expected 1 .. ", kMaxChatMessages));
  }
  std::vector<ChatMessage> messages;
  std::size_t bytes = 0;
  for (const v1::ChatMessage& message : chat.messages()) {
    bytes += message.content().size();
    messages.push_back({message.role(), message.content()});
  }
  SCD_RETURN_IF_ERROR(CheckTextSize("prompt.chat", bytes));
  absl::StatusOr<std::vector<std::int32_t>> ids = EncodeChat(**chat_template_, tokenizer_, messages);
  if (!ids.ok()) {
    return absl::Status(ids.status().code(), absl::StrCat("prompt.chat.messages: ", ids.status().message()));
  }
  return ids;
}

}  // namespace scd
