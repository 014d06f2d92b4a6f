// Ids of every golden text against transformers, for each kind of tokenizer, and what must hold for each of
// them.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/io/json.h"
#include "common/model/chat_template.h"
#include "common/model/detokenizer.h"
#include "common/model/gguf_file.h"
#include "common/model/gguf_tokenizer.h"
#include "common/model/tokenizer.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

using Ids = std::vector<std::int32_t>;

struct Golden {
  std::string text;
  Ids ids;
};

std::vector<Golden> ReadTexts(const nlohmann::json& expected) {
  std::vector<Golden> out;
  for (const auto& entry : expected["texts"]) {
    out.push_back({entry["text"].get<std::string>(), entry["ids"].get<Ids>()});
  }
  return out;
}

std::unique_ptr<Tokenizer> LoadOrFail(const std::string& folder) {
  auto tokenizer = LoadTokenizer(folder);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

void CheckGoldens(const Tokenizer& tokenizer, const nlohmann::json& expected, std::size_t num_texts) {
  const std::vector<Golden> goldens = ReadTexts(expected);
  ASSERT_EQ(goldens.size(), num_texts);
  for (const Golden& golden : goldens) {
    SCOPED_TRACE(golden.text);
    const auto ids =
        tokenizer.Encode(golden.text, {.allow_special_tokens = true, .add_default_tokens = true});
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, golden.ids);
  }
}

// Plain text never becomes special tokens, and its ids say the same text again.
void CheckPlainText(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    SCOPED_TRACE(text);
    const auto ids = tokenizer.Encode(text, {.allow_special_tokens = false, .add_default_tokens = false});
    ASSERT_TRUE(ids.ok()) << ids.status();
    for (const std::int32_t id : *ids) EXPECT_FALSE(tokenizer.IsSpecial(id)) << id;
    EXPECT_EQ(tokenizer.Decode(*ids, /*render_special=*/false), text);
    EXPECT_EQ(tokenizer.Decode(*ids, /*render_special=*/true), text);
    Detokenizer detokenizer(tokenizer, /*render_special=*/false);
    std::string streamed;
    for (const std::int32_t id : *ids) streamed += detokenizer.Add(id);
    EXPECT_EQ(streamed + detokenizer.Finish(), text);
  }
}

std::vector<std::string> PlainTexts(const nlohmann::json& expected, bool nfc) {
  std::vector<std::string> texts;
  for (const Golden& golden : ReadTexts(expected)) {
    if (nfc && golden.text.find("\u0301") != std::string::npos) continue;  // comes back composed
    texts.push_back(golden.text);
  }
  for (const char* special :
       {"<|endoftext|>", "<|im_start|>", "a<|im_end|>b", "<s>", "</s> <unk>", "<0x41>"}) {
    texts.push_back(special);
  }
  return texts;
}

class TinyTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyTokenizer, GivesTheIdsOfTransformers) {
  const std::string folder = testing::TestDataPath(GetParam());
  const auto expected = ParseJsonFile(folder + "/expected.json");
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto tokenizer = LoadOrFail(folder);
  ASSERT_NE(tokenizer, nullptr);
  CheckGoldens(*tokenizer, *expected, 16);
}

TEST_P(TinyTokenizer, TreatsSpecialSpellingsAsText) {
  const std::string folder = testing::TestDataPath(GetParam());
  const auto expected = ParseJsonFile(folder + "/expected.json");
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto tokenizer = LoadOrFail(folder);
  ASSERT_NE(tokenizer, nullptr);
  const bool nfc = std::string(GetParam()).find("qwen") != std::string::npos;
  CheckPlainText(*tokenizer, PlainTexts(*expected, nfc));
}

TEST_P(TinyTokenizer, RefusesTextThatIsNotUtf8) {
  const auto tokenizer = LoadOrFail(testing::TestDataPath(GetParam()));
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string& text : {std::string("ab\xFF"), std::string("\xC3"), std::string("\xED\xA0\x80"),
                                  std::string("\xC0\xAF"), std::string("\xF4\x90\x80\x80")}) {
    const auto ids = tokenizer->Encode(text, {});
    EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument) << ids.status();
  }
}

TEST_P(TinyTokenizer, KnowsItsVocabulary) {
  const auto tokenizer = LoadOrFail(testing::TestDataPath(GetParam()));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 1024);
  for (std::int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    const auto text = tokenizer->TokenText(id);
    ASSERT_TRUE(text.has_value()) << id;
    EXPECT_EQ(tokenizer->TokenId(*text), id);
    if (tokenizer->IsSpecial(id)) {
      EXPECT_EQ(tokenizer->TokenBytes(id, /*render_special=*/false), "");
    }
    EXPECT_NE(tokenizer->TokenBytes(id, /*render_special=*/true), "");
  }
  for (const std::int32_t id : {-1, 1024, INT32_MIN, INT32_MAX}) {
    EXPECT_FALSE(tokenizer->TokenText(id).has_value());
    EXPECT_FALSE(tokenizer->IsSpecial(id));
    EXPECT_EQ(tokenizer->TokenBytes(id, true), "");
  }
  EXPECT_FALSE(tokenizer->TokenId("no such token").has_value());
  EXPECT_TRUE(tokenizer->eos_id().has_value());
  EXPECT_FALSE(tokenizer->digest().empty());
}

INSTANTIATE_TEST_SUITE_P(All, TinyTokenizer,
                         ::testing::Values("tiny-llama", "tiny-llama3", "tiny-mistral", "tiny-qwen2",
                                           "tiny-qwen3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

std::unique_ptr<Tokenizer> LoadBase(const std::string& path, std::string* chat_template) {
  const auto file = GgufFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return nullptr;
  const auto source = (*file)->String("tokenizer.chat_template");
  EXPECT_TRUE(source.ok()) << source.status();
  if (source.ok()) *chat_template = *source;
  auto tokenizer = LoadGgufTokenizer(**file);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

TEST(BaseModelTokenizer, GivesTheIdsOfTransformers) {
  SCD_SHARED_OR_SKIP(golden_path, "goldens/smollm2/expected.json");
  SCD_BASE_MODEL_OR_SKIP(model_path);
  const auto expected = ParseJsonFile(golden_path);
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::string chat_template;
  const auto tokenizer = LoadBase(model_path, &chat_template);
  ASSERT_NE(tokenizer, nullptr);
  CheckGoldens(*tokenizer, *expected, 18);
  CheckPlainText(*tokenizer, PlainTexts(*expected, /*nfc=*/false));
  int prompts = 0;
  for (const auto& run : (*expected)["runs"]) {
    if (!run["prompt"].is_string()) continue;
    ++prompts;
    const auto ids = tokenizer->Encode(run["prompt"].get<std::string>(), {.allow_special_tokens = true});
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, run["ids"].get<Ids>()) << run["prompt"];
  }
  EXPECT_GE(prompts, 8);
}

TEST(BaseModelTokenizer, RendersTheChatOfTransformers) {
  SCD_SHARED_OR_SKIP(golden_path, "goldens/smollm2/expected.json");
  SCD_BASE_MODEL_OR_SKIP(model_path);
  const auto expected = ParseJsonFile(golden_path);
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::string source;
  const auto tokenizer = LoadBase(model_path, &source);
  ASSERT_NE(tokenizer, nullptr);
  const auto chat_template = RecogniseChatTemplate(source, "<|im_start|>", "<|im_end|>");
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  EXPECT_EQ((*chat_template)->family(), "smollm2");
  std::vector<ChatMessage> messages;
  for (const auto& message : (*expected)["chat"]["messages"]) {
    messages.push_back({message["role"].get<std::string>(), message["content"].get<std::string>()});
  }
  const auto prompt = (*chat_template)->Render(messages);
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(*prompt, (*expected)["chat"]["rendered"].get<std::string>());
  const auto ids = EncodeChat(**chat_template, *tokenizer, messages);
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(*ids, (*expected)["chat"]["ids"].get<Ids>());

  messages[0].content = "a <file_sep> b";
  const auto refused = EncodeChat(**chat_template, *tokenizer, messages);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("messages[0].content"), std::string::npos) << refused.status();
}

}  // namespace
}  // namespace scd
