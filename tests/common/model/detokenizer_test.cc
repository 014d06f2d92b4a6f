#include "common/model/detokenizer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/model/tokenizer.h"
#include "common/model/unicode.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

std::unique_ptr<Tokenizer> Load(const char* model) {
  auto tokenizer = LoadTokenizer(testing::TestDataPath(model));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

class DetokenizerOf : public ::testing::TestWithParam<const char*> {};

TEST_P(DetokenizerOf, StreamsTheSameTextAsDecode) {
  const auto tokenizer = Load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  std::mt19937 random(11);
  int with_replacement = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::int32_t> ids(random() % 24);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 1030) - 3;  // some outside
    const bool render = round % 2 == 0;
    Detokenizer detokenizer(*tokenizer, render);
    std::string streamed;
    for (const std::int32_t id : ids) {
      const std::string piece = detokenizer.Add(id);
      ASSERT_TRUE(IsValidUtf8(piece));
      streamed += piece;
    }
    streamed += detokenizer.Finish();
    ASSERT_EQ(streamed, tokenizer->Decode(ids, render));
    if (streamed.find("\uFFFD") != std::string::npos) ++with_replacement;
  }
  EXPECT_GT(with_replacement, 0);
}

TEST_P(DetokenizerOf, NeverEmitsHalfACharacter) {
  const auto tokenizer = Load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const std::string text = "naïve 日本語のテキスト 🙂🚀👩‍👧 हिन्दी ½ end";
  const auto ids = tokenizer->Encode(text, {.add_default_tokens = false});
  ASSERT_TRUE(ids.ok());
  Detokenizer detokenizer(*tokenizer, false);
  std::string streamed;
  int held_back = 0;
  for (const std::int32_t id : *ids) {
    const std::string piece = detokenizer.Add(id);
    ASSERT_TRUE(IsValidUtf8(piece));
    ASSERT_EQ(piece.find("\uFFFD"), std::string::npos);
    if (piece.empty()) ++held_back;
    streamed += piece;
    ASSERT_EQ(text.compare(0, streamed.size(), streamed), 0);
  }
  EXPECT_GT(held_back, 10);
  EXPECT_EQ(detokenizer.Finish(), "");
  EXPECT_EQ(streamed, text);
}

INSTANTIATE_TEST_SUITE_P(All, DetokenizerOf, ::testing::Values("tiny-llama", "tiny-mistral"));

TEST(Detokenizer, ReplacesAnUnfinishedCharacterAtTheEnd) {
  const auto tokenizer = Load("tiny-mistral");
  ASSERT_NE(tokenizer, nullptr);
  Detokenizer detokenizer(*tokenizer, false);
  EXPECT_EQ(detokenizer.Add(*tokenizer->TokenId("<0xE6>")), "");
  EXPECT_EQ(detokenizer.Add(*tokenizer->TokenId("<0x97>")), "");
  EXPECT_EQ(detokenizer.Finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(Detokenizer, DropsOnlyTheFirstSpaceOfSentencePiece) {
  const auto tokenizer = Load("tiny-mistral");
  ASSERT_NE(tokenizer, nullptr);
  const std::int32_t the = *tokenizer->TokenId("▁the");
  Detokenizer detokenizer(*tokenizer, false);
  EXPECT_EQ(detokenizer.Add(1), "");
  EXPECT_EQ(detokenizer.Add(the), "the");
  EXPECT_EQ(detokenizer.Add(the), " the");
}

}  // namespace
}  // namespace scd
