#include "common/model/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/model/chat_formats.h"

namespace scd {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

const std::vector<ChatMessage> kQuestion = {{"user", "Hi"}};
const std::vector<ChatMessage> kTurns = {{"user", " A "}, {"assistant", " B "}, {"user", "C"}};
const std::vector<ChatMessage> kSystem = {{"system", "S"}, {"user", "A"}, {"assistant", "B"}, {"user", "C"}};

std::string Render(ChatFamily family, const std::vector<ChatMessage>& messages) {
  const auto prompt = MakeChatTemplate(family, "<bos>", "<eos>")->Render(messages);
  EXPECT_TRUE(prompt.ok()) << prompt.status();
  return prompt.value_or("");
}

absl::Status Refusal(ChatFamily family, const std::vector<ChatMessage>& messages) {
  return MakeChatTemplate(family, "<bos>", "<eos>")->Render(messages).status();
}

TEST(ChatTemplate, RendersChatMl) {
  EXPECT_EQ(Render(ChatFamily::kChatMl, kQuestion),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(
      Render(ChatFamily::kChatMl, kSystem),
      "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n"
      "<|im_start|>user\nC<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, PutsTheFamilysSystemPromptWhereThereIsNone) {
  EXPECT_EQ(Render(ChatFamily::kQwen2, kQuestion),
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_THAT(Render(ChatFamily::kQwen25, kQuestion), HasSubstr("You are Qwen, created by Alibaba Cloud."));
  EXPECT_THAT(Render(ChatFamily::kSmolLm2, kQuestion),
              HasSubstr("named SmolLM, trained by Hugging Face<|im_end|>"));
  for (const ChatFamily family : {ChatFamily::kQwen2, ChatFamily::kQwen25, ChatFamily::kSmolLm2}) {
    EXPECT_EQ(Render(family, kSystem), Render(ChatFamily::kChatMl, kSystem));
  }
}

TEST(ChatTemplate, DropsTheReasoningOfEarlierQwen3Answers) {
  const std::vector<ChatMessage> messages = {
      {"user", "A"}, {"assistant", "<think>\nwhy\n</think>\n\nB"}, {"user", "C"}};
  EXPECT_EQ(
      Render(ChatFamily::kQwen3, messages),
      "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n<|im_start|>user\nC<|im_end|>\n"
      "<|im_start|>assistant\n");
  const std::vector<ChatMessage> last = {{"user", "A"}, {"assistant", "<think>\nwhy\n</think>\n\nB"}};
  EXPECT_EQ(Render(ChatFamily::kQwen3, last),
            "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\n<think>\nwhy\n</think>\n\nB<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(ChatTemplate, RendersLlama3) {
  EXPECT_EQ(Render(ChatFamily::kLlama3, kTurns),
            "<bos><|start_header_id|>user<|end_header_id|>\n\nA<|eot_id|><|start_header_id|>assistant<|end_"
            "header_id|>"
            "\n\nB<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nC<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(Render(ChatFamily::kLlama31, {{"system", " S "}, {"user", "A"}}),
            "<bos><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
            "Today Date: 26 Jul 2024\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nA<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_THAT(
      Render(ChatFamily::kLlama32, kQuestion),
      MatchesRegex("<bos>[^T]*Today Date: [0-9][0-9] [A-Z][a-z][a-z] 20[0-9][0-9]\n\n<[^H]*Hi<[^H]*"));
}

TEST(ChatTemplate, RendersMistral) {
  EXPECT_EQ(Render(ChatFamily::kMistralV1, kTurns), "<bos>[INST]  A  [/INST] B <eos> [INST] C [/INST]");
  EXPECT_EQ(Render(ChatFamily::kMistralV2, kTurns), "<bos>[INST]  A  [/INST] B <eos>[INST] C [/INST]");
  EXPECT_EQ(Render(ChatFamily::kMistralV3, kTurns), "<bos>[INST]  A [/INST] B<eos>[INST] C[/INST]");
  EXPECT_EQ(Render(ChatFamily::kMistralV3, kSystem), "<bos>[INST] A[/INST] B<eos>[INST] S\n\nC[/INST]");
}

TEST(ChatTemplate, RefusesMessagesThatTheTemplateRefuses) {
  EXPECT_THAT(std::string(Refusal(ChatFamily::kMistralV1, kSystem).message()), HasSubstr("messages[0].role"));
  const std::vector<ChatMessage> twice = {{"user", "A"}, {"user", "B"}};
  EXPECT_THAT(std::string(Refusal(ChatFamily::kMistralV3, twice).message()), HasSubstr("messages[1].role"));
  EXPECT_TRUE(Refusal(ChatFamily::kChatMl, twice).ok());
  for (const ChatFamily family : {ChatFamily::kChatMl, ChatFamily::kLlama3, ChatFamily::kMistralV2}) {
    EXPECT_EQ(Refusal(family, {}).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(Refusal(family, {{"tool", "A"}}).message()), HasSubstr("messages[0].role"));
    EXPECT_THAT(std::string(Refusal(family, {{"user", "\xFF"}}).message()), HasSubstr("messages[0].content"));
    EXPECT_THAT(std::string(Refusal(family, {{"user", "a<eos>b"}}).message()), HasSubstr("spells \"<eos>\""));
  }
  EXPECT_FALSE(Refusal(ChatFamily::kSmolLm2, {{"user", "<|im_end|>"}}).ok());
  EXPECT_FALSE(Refusal(ChatFamily::kLlama31, {{"user", "<|eot_id|>"}}).ok());
  EXPECT_FALSE(Refusal(ChatFamily::kMistralV2, {{"user", "x [/INST] y"}}).ok());
}

TEST(ChatTemplate, RecognisesExactTextOnly) {
  const std::string chatml =
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
      "'<|im_end|>' + "
      "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  for (const std::string& text : {chatml, chatml + "\n", chatml + " \r\n\n"}) {
    const auto found = RecogniseChatTemplate(text, "", "<|im_end|>");
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ((*found)->family(), "chatml");
  }
  for (const std::string& text : {std::string(), " " + chatml, chatml + "{{ 1 }}", chatml.substr(1)}) {
    const auto found = RecogniseChatTemplate(text, "", "<|im_end|>");
    EXPECT_EQ(found.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(found.status().message()), HasSubstr("plain text"));
  }
}

}  // namespace
}  // namespace scd
