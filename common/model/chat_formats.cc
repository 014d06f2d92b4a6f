#include "common/model/chat_formats.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/io/digest.h"
#include "common/model/string_views.h"
#include "common/model/unicode.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

struct KnownTemplate {
  std::string_view digest;
  ChatFamily family;
};

// Digests of published templates (ChatTemplateDigest), with a model that ships each.
constexpr KnownTemplate kKnownTemplates[] = {
    {"db55061d8e9c45bcff2e15fd72bb143a", ChatFamily::kSmolLm2},    // SmolLM2-135M-Instruct
    {"f51353c61392637b87688740e6af6f65", ChatFamily::kChatMl},     // OpenHermes-2.5-Mistral-7B
    {"8144cbc7436c8d8d282c4fb66f180058", ChatFamily::kChatMl},     // the same with a space more
    {"5919c39b4a318d179754d9247aeae87a", ChatFamily::kQwen2},      // Qwen2-7B-Instruct
    {"dac96f13440f8a9da845a8306e44ff3c", ChatFamily::kQwen25},     // Qwen2.5-7B-Instruct
    {"7a307127dfe0745ad9a7fbe73a0b05db", ChatFamily::kQwen25},     // Qwen2.5-0.5B-Instruct-GGUF
    {"9c1e282e6215209467b9de819af47759", ChatFamily::kQwen3},      // Qwen3-4B
    {"3222a9d78eaacf2d8424e3f29fdbc3fc", ChatFamily::kChatMl},     // Qwen3-4B-Instruct-2507
    {"21755c8be0cd2ce38a4a285e8c55cd64", ChatFamily::kLlama3},     // Meta-Llama-3-8B-Instruct
    {"0da939b197935863429c0d2bb4531921", ChatFamily::kLlama3},     // its first release
    {"43f3315e8d2b725ec14a7723a30cb79f", ChatFamily::kLlama31},    // Llama-3.1-8B-Instruct
    {"53a3a50225b44e27c92c96fa1b2f22f4", ChatFamily::kLlama32},    // Llama-3.2-1B-Instruct
    {"ba0348dedd0997c99811aea5c52469ba", ChatFamily::kMistralV1},  // Mistral-7B-Instruct-v0.1
    {"6a3443b7f650ef48c948f6d6abce30c1", ChatFamily::kMistralV2},  // Mistral-7B-Instruct-v0.2
    {"c74fca51282ee14c168fd0f1abf8e286", ChatFamily::kMistralV3},  // Mistral-7B-Instruct-v0.3
};

struct FamilyFacts {
  ChatFamily family;
  std::string_view name;
  std::string_view default_system;  // ChatML families: the system prompt where the messages bring none
};

constexpr FamilyFacts kFamilies[] = {
    {ChatFamily::kChatMl, "chatml", ""},
    {ChatFamily::kSmolLm2, "smollm2", "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
    {ChatFamily::kQwen2, "qwen2", "You are a helpful assistant."},
    {ChatFamily::kQwen25, "qwen2.5", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
    {ChatFamily::kQwen3, "qwen3", ""},
    {ChatFamily::kLlama3, "llama3", ""},
    {ChatFamily::kLlama31, "llama3.1", ""},
    {ChatFamily::kLlama32, "llama3.2", ""},
    {ChatFamily::kMistralV1, "mistral-v1", ""},
    {ChatFamily::kMistralV2, "mistral-v2", ""},
    {ChatFamily::kMistralV3, "mistral-v3", ""},
};

const FamilyFacts& FactsOf(ChatFamily family) {
  for (const FamilyFacts& facts : kFamilies) {
    if (facts.family == family) return facts;
  }
  return kFamilies[0];
}

// White space of Python's str.strip, which Jinja's trim is.
bool IsStripped(char32_t c) {
  return IsWhitespace(c) || (c >= 0x1C && c <= 0x1F);
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsStripped(DecodeUtf8(text))) text.remove_prefix(Utf8Length(text[0]));
  while (!text.empty()) {
    std::size_t at = text.size() - 1;
    while (at > 0 && (static_cast<std::uint8_t>(text[at]) & 0xC0) == 0x80) --at;
    if (!IsStripped(DecodeUtf8(text.substr(at)))) break;
    text.remove_suffix(text.size() - at);
  }
  return text;
}

std::string_view StripNewlines(std::string_view text, bool left, bool right) {
  while (left && text.starts_with('\n')) text.remove_prefix(1);
  while (right && text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

absl::Status MessageError(std::size_t index, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("messages[", index, "]", ToAbsl(what)));
}

// What every template asks of messages, and the markers that no content may spell.
class CheckedTemplate : public ChatTemplate {
 public:
  CheckedTemplate(ChatFamily family, std::string_view bos, std::string_view eos,
                  std::vector<std::string> markers)
      : family_(family), bos_(bos), eos_(eos), markers_(std::move(markers)) {
    for (const std::string& text : {bos_, eos_}) {
      if (!text.empty()) markers_.push_back(text);
    }
  }

  std::string_view family() const override { return FactsOf(family_).name; }

  absl::StatusOr<std::string> Render(absl::Span<const ChatMessage> messages) const override {
    if (messages.empty()) return absl::InvalidArgumentError("messages: there are none");
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const ChatMessage& message = messages[i];
      if (message.role != "system" && message.role != "user" && message.role != "assistant") {
        return MessageError(i, absl::StrCat(".role: expected system, user or assistant, got \"",
                                            absl::CHexEscape(message.role), "\""));
      }
      if (!IsValidUtf8(message.content)) return MessageError(i, ".content: is not UTF-8");
      for (const std::string& marker : markers_) {
        if (message.content.find(marker) != std::string::npos) {
          return MessageError(
              i, absl::StrCat(".content: spells \"", marker, "\", a marker of the chat template"));
        }
      }
    }
    return RenderChecked(messages);
  }

 protected:
  virtual absl::StatusOr<std::string> RenderChecked(absl::Span<const ChatMessage> messages) const = 0;

  ChatFamily family_;
  std::string bos_;
  std::string eos_;

 private:
  std::vector<std::string> markers_;
};

class ChatMlTemplate : public CheckedTemplate {
 public:
  ChatMlTemplate(ChatFamily family, std::string_view bos, std::string_view eos)
      : CheckedTemplate(family, bos, eos, {"<|im_start|>", "<|im_end|>", "<|endoftext|>"}) {}

 protected:
  absl::StatusOr<std::string> RenderChecked(absl::Span<const ChatMessage> messages) const override {
    std::string out;
    const std::string_view default_system = FactsOf(family_).default_system;
    if (!default_system.empty() && messages[0].role != "system") AddMessage("system", default_system, &out);
    const std::size_t last_question = LastQuestion(messages);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const ChatMessage& message = messages[i];
      if (family_ == ChatFamily::kQwen3 && message.role == "assistant") {
        AddMessage(message.role, Qwen3Answer(message.content, i > last_question, i + 1 == messages.size()),
                   &out);
      } else {
        AddMessage(message.role, message.content, &out);
      }
    }
    return absl::StrCat(out, "<|im_start|>assistant\n");
  }

 private:
  static void AddMessage(std::string_view role, std::string_view content, std::string* out) {
    absl::StrAppend(out, "<|im_start|>", ToAbsl(role), "\n", ToAbsl(content), "<|im_end|>\n");
  }

  // Place of the last user message that is no tool's answer; the last message where there is none.
  static std::size_t LastQuestion(absl::Span<const ChatMessage> messages) {
    for (std::size_t i = messages.size(); i-- > 0;) {
      const std::string_view content = messages[i].content;
      const bool tool = content.starts_with("<tool_response>") && content.ends_with("</tool_response>");
      if (messages[i].role == "user" && !tool) return i;
    }
    return messages.size() - 1;
  }

  static std::string Qwen3Answer(std::string_view content, bool after_question, bool last) {
    constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
    std::string_view reasoning;
    if (const std::size_t first = content.find(kEnd); first != std::string_view::npos) {
      reasoning = StripNewlines(content.substr(0, first), false, true);
      if (const std::size_t begin = reasoning.rfind(kBegin); begin != std::string_view::npos) {
        reasoning.remove_prefix(begin + kBegin.size());
      }
      reasoning = StripNewlines(reasoning, true, false);
      content = StripNewlines(content.substr(content.rfind(kEnd) + kEnd.size()), true, false);
    }
    if (!after_question || (!last && reasoning.empty())) return std::string(content);
    return absl::StrCat("<think>\n", ToAbsl(StripNewlines(reasoning, true, true)), "\n</think>\n\n",
                        ToAbsl(StripNewlines(content, true, false)));
  }
};

class Llama3Template : public CheckedTemplate {
 public:
  Llama3Template(ChatFamily family, std::string_view bos, std::string_view eos)
      : CheckedTemplate(family, bos, eos,
                        {"<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                         "<|eot_id|>", "<|eom_id|>", "<|python_tag|>"}) {}

 protected:
  absl::StatusOr<std::string> RenderChecked(absl::Span<const ChatMessage> messages) const override {
    std::string out = bos_;
    if (family_ != ChatFamily::kLlama3) {
      std::string_view system;
      if (messages[0].role == "system") {
        system = Trim(messages[0].content);
        messages.remove_prefix(1);
      }
      const std::string date = family_ == ChatFamily::kLlama31
                                   ? "26 Jul 2024"
                                   : absl::FormatTime("%d %b %Y", absl::Now(), absl::LocalTimeZone());
      AddMessage(
          "system",
          absl::StrCat("Cutting Knowledge Date: December 2023\nToday Date: ", date, "\n\n", ToAbsl(system)),
          &out);
    }
    for (const ChatMessage& message : messages) AddMessage(message.role, Trim(message.content), &out);
    return absl::StrCat(out, "<|start_header_id|>assistant<|end_header_id|>\n\n");
  }

 private:
  static void AddMessage(std::string_view role, std::string_view content, std::string* out) {
    absl::StrAppend(out, "<|start_header_id|>", ToAbsl(role), "<|end_header_id|>\n\n", ToAbsl(content),
                    "<|eot_id|>");
  }
};

class MistralTemplate : public CheckedTemplate {
 public:
  MistralTemplate(ChatFamily family, std::string_view bos, std::string_view eos)
      : CheckedTemplate(family, bos, eos, {"[INST]", "[/INST]", "<s>", "</s>"}) {}

 protected:
  absl::StatusOr<std::string> RenderChecked(absl::Span<const ChatMessage> messages) const override {
    const bool v3 = family_ == ChatFamily::kMistralV3;
    std::string out = bos_;
    std::string system;
    std::size_t first = 0;
    if (v3 && messages[0].role == "system") {
      system = absl::StrCat(messages[0].content, "\n\n");
      first = 1;
    }
    for (std::size_t i = first; i < messages.size(); ++i) {
      const ChatMessage& message = messages[i];
      const bool question = (i - first) % 2 == 0;
      if (message.role != (question ? "user" : "assistant")) {
        return MessageError(i, v3 ? ".role: after an optional system message, user and assistant take turns"
                                  : ".role: user and assistant take turns, and no system message is allowed");
      }
      if (question) {
        const bool last = i + 1 == messages.size();
        absl::StrAppend(&out, "[INST] ", last ? system : "", message.content, v3 ? "[/INST]" : " [/INST]");
      } else if (v3) {
        absl::StrAppend(&out, " ", ToAbsl(Trim(message.content)), eos_);
      } else {
        absl::StrAppend(&out, message.content, eos_, family_ == ChatFamily::kMistralV1 ? " " : "");
      }
    }
    return out;
  }
};

}  // namespace

std::string ChatTemplateDigest(std::string_view jinja) {
  while (!jinja.empty() && absl::ascii_isspace(static_cast<unsigned char>(jinja.back())))
    jinja.remove_suffix(1);
  return DigestBuilder("scd.chat_template.v1").AddString(ToAbsl(jinja)).Finish().ToHex();
}

std::optional<ChatFamily> FindChatFamily(std::string_view jinja) {
  const std::string digest = ChatTemplateDigest(jinja);
  for (const KnownTemplate& known : kKnownTemplates) {
    if (known.digest == digest) return known.family;
  }
  return std::nullopt;
}

std::unique_ptr<ChatTemplate> MakeChatTemplate(ChatFamily family, std::string_view bos,
                                               std::string_view eos) {
  switch (family) {
    case ChatFamily::kChatMl:
    case ChatFamily::kSmolLm2:
    case ChatFamily::kQwen2:
    case ChatFamily::kQwen25:
    case ChatFamily::kQwen3:
      return std::make_unique<ChatMlTemplate>(family, bos, eos);
    case ChatFamily::kLlama3:
    case ChatFamily::kLlama31:
    case ChatFamily::kLlama32:
      return std::make_unique<Llama3Template>(family, bos, eos);
    case ChatFamily::kMistralV1:
    case ChatFamily::kMistralV2:
    case ChatFamily::kMistralV3:
      break;
  }
  return std::make_unique<MistralTemplate>(family, bos, eos);
}

}  // namespace scd
