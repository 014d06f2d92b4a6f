// The chat template families that are known, and how each turns messages into a prompt.
#ifndef SCD_COMMON_MODEL_CHAT_FORMATS_H_
#define SCD_COMMON_MODEL_CHAT_FORMATS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/model/chat_template.h"

namespace scd {

enum class ChatFamily : std::uint8_t {
  kChatMl,     // <|im_start|>role\ncontent<|im_end|>\n
  kSmolLm2,    // ChatML that begins with SmolLM2's system prompt where the messages have none
  kQwen2,      // likewise with Qwen2's
  kQwen25,     // and Qwen2.5's
  kQwen3,      // ChatML; answers lose their reasoning, except those after the last question
  kLlama3,     // headers and <|eot_id|>
  kLlama31,    // and a system message with dates, of which today's is always 26 Jul 2024
  kLlama32,    // and with today's date
  kMistralV1,  // [INST] question [/INST]answer</s> and a space
  kMistralV2,  // without that space; system messages are refused by both
  kMistralV3,  // [INST] question[/INST] answer</s>; the system message stands in the last question
};

// The family of a template, recognised by the digest of its text without white space at the end.
std::optional<ChatFamily> FindChatFamily(std::string_view jinja);

std::unique_ptr<ChatTemplate> MakeChatTemplate(ChatFamily family, std::string_view bos, std::string_view eos);

// "scd.chat_template.v1" over the text without white space at the end, in hex: what FindChatFamily looks up.
std::string ChatTemplateDigest(std::string_view jinja);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_CHAT_FORMATS_H_
