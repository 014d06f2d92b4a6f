#include "common/model/chat_template.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/model/chat_formats.h"
#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::unique_ptr<ChatTemplate>> RecogniseChatTemplate(std::string_view jinja,
                                                                    std::string_view bos,
                                                                    std::string_view eos) {
  if (const std::optional<ChatFamily> family = FindChatFamily(jinja))
    return MakeChatTemplate(*family, bos, eos);
  if (jinja.empty()) {
    return absl::UnimplementedError(
        "the model brings no chat template; send the prompt as plain text instead");
  }
  return absl::UnimplementedError(absl::StrCat(
      "the model's chat template (digest ", ChatTemplateDigest(jinja),
      ") is none of the known ones, and templates are never guessed; send the prompt as plain text, "
      "written as the model expects it, instead"));
}

absl::StatusOr<std::vector<std::int32_t>> EncodeChat(const ChatTemplate& chat_template,
                                                     const Tokenizer& tokenizer,
                                                     absl::Span<const ChatMessage> messages) {
  EncodeOptions options;
  options.allow_special_tokens = true;
  options.add_default_tokens = false;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    SCD_ASSIGN_OR_RETURN(const auto ids, tokenizer.Encode(messages[i].content, options));
    for (const std::int32_t id : ids) {
      if (!tokenizer.IsSpecial(id)) continue;
      return absl::InvalidArgumentError(absl::StrCat("messages[", i, "].content: spells the special token \"",
                                                     tokenizer.TokenText(id).value_or(""), "\""));
    }
  }
  SCD_ASSIGN_OR_RETURN(const std::string prompt, chat_template.Render(messages));
  return tokenizer.Encode(prompt, options);
}

}  // namespace scd
