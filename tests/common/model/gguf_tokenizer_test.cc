#include "common/model/gguf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/io/json.h"
#include "common/model/spm_model_file.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const testing::GgufBuilder& builder) {
  const testing::TempDir folder;
  testing::WriteFile(folder.File("model.gguf"), builder.Build());
  const auto file = GgufFile::Open(folder.File("model.gguf"));
  if (!file.ok()) return file.status();
  return LoadGgufTokenizer(**file);
}

// The vocabulary of a tiny model's tokenizer.json as a converter writes it.
testing::GgufBuilder FromTokenizerJson(const std::string& model, const std::string& pre) {
  const json file = *ParseJsonFile(testing::TestDataPath(model + "/tokenizer.json"));
  std::vector<std::string> tokens(1024), merges;
  for (const auto& [text, id] : file["model"]["vocab"].items()) tokens[id.get<std::size_t>()] = text;
  std::vector<std::int32_t> types(1024, 1);
  for (const auto& token : file["added_tokens"]) types[token["id"].get<std::size_t>()] = 3;
  for (const auto& merge : file["model"]["merges"]) {
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  testing::GgufBuilder builder;
  builder.String("general.architecture", "llama")
      .String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", pre);
  builder.Array("tokenizer.ggml.tokens", 8, tokens).Array("tokenizer.ggml.token_type", 5, types);
  builder.Array("tokenizer.ggml.merges", 8, merges);
  builder.U32("tokenizer.ggml.bos_token_id", 1).U32("tokenizer.ggml.eos_token_id", 0);
  return builder;
}

struct ByteLevel {
  const char* model;
  const char* pre;
  bool same_digest;
};

class GgufByteLevel : public ::testing::TestWithParam<ByteLevel> {};

TEST_P(GgufByteLevel, TokenizesLikeTheFileItWasMadeFrom) {
  const auto& [model, pre, same_digest] = GetParam();
  auto builder = FromTokenizerJson(model, pre);
  builder.Bool("tokenizer.ggml.add_bos_token", 0);
  const auto tokenizer = Load(builder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const json expected = *ParseJsonFile(testing::TestDataPath(std::string(model) + "/expected.json"));
  ASSERT_EQ(expected["texts"].size(), 16u);
  for (const auto& entry : expected["texts"]) {
    const auto ids = (*tokenizer)->Encode(entry["text"].get<std::string>(), {.allow_special_tokens = true});
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, entry["ids"].get<Ids>()) << entry["text"];
  }
  const auto original = LoadTokenizer(testing::TestDataPath(model));
  ASSERT_TRUE(original.ok()) << original.status();
  EXPECT_EQ((*tokenizer)->digest() == (*original)->digest(), same_digest);
  EXPECT_EQ((*tokenizer)->bos_id(), 1);
  EXPECT_EQ((*tokenizer)->eos_id(), 0);
  EXPECT_TRUE((*tokenizer)->IsSpecial(2));
  EXPECT_FALSE((*tokenizer)->IsSpecial(3));
}

INSTANTIATE_TEST_SUITE_P(All, GgufByteLevel,
                         ::testing::Values(ByteLevel{"tiny-llama", "smollm", true},
                                           ByteLevel{"tiny-llama3", "llama-bpe", true},
                                           ByteLevel{"tiny-llama3", "llama3", true},
                                           ByteLevel{"tiny-qwen2", "qwen2", true}));

TEST(GgufTokenizer, AddsDefaultTokensAsTheFileOrTheVocabularySays) {
  const auto first_ids = [](testing::GgufBuilder builder) {
    const auto tokenizer = Load(builder);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return tokenizer.ok() ? *(*tokenizer)->Encode("a", {}) : Ids();
  };
  auto smollm = FromTokenizerJson("tiny-llama", "smollm");
  auto llama3 = FromTokenizerJson("tiny-llama3", "llama-bpe");
  const Ids plain = first_ids(smollm);
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_EQ(first_ids(llama3), (Ids{1, plain[0]}));
  smollm.Bool("tokenizer.ggml.add_bos_token", 1).Bool("tokenizer.ggml.add_eos_token", 1);
  EXPECT_EQ(first_ids(smollm), (Ids{1, plain[0], 0}));
}

TEST(GgufTokenizer, CutsEveryNumericCharacterOutBeforeSmolLm2sWords) {
  const auto ids = [](const char* pre, const std::string& text) {
    testing::GgufBuilder builder;
    builder.String("tokenizer.ggml.model", "gpt2").String("tokenizer.ggml.pre", pre);
    builder.Array<std::string>("tokenizer.ggml.tokens", 8, {"Ġ", "Â", "½", "ĠÂ", "1", "2", "12", "Ġ1"});
    builder.Array<std::string>("tokenizer.ggml.merges", 8, {"Ġ Â", "1 2", "Ġ 1"});
    const auto tokenizer = Load(builder);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return tokenizer.ok() ? *(*tokenizer)->Encode(text, {}) : Ids();
  };
  EXPECT_EQ(ids("gpt-2", " ½"), (Ids{3, 2}));
  EXPECT_EQ(ids("smollm", " ½"), (Ids{0, 1, 2}));
  EXPECT_EQ(ids("gpt-2", " 12"), (Ids{0, 6}));
  EXPECT_EQ(ids("smollm", " 12"), (Ids{0, 4, 5}));
  EXPECT_EQ(ids("qwen2", " 12"), (Ids{0, 4, 5}));
  EXPECT_EQ(ids("default", "12 1"), (Ids{6, 7}));
}

testing::GgufBuilder FromSpmModel(const std::string& bytes) {
  const auto model = ParseSpmModelFile(bytes);
  EXPECT_TRUE(model.ok()) << model.status();
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (const SpmPiece& piece : model->pieces) {
    tokens.emplace_back(piece.text);
    scores.push_back(piece.score);
    types.push_back(static_cast<std::int32_t>(piece.type));
  }
  testing::GgufBuilder builder;
  builder.String("general.architecture", "llama").String("tokenizer.ggml.model", "llama");
  builder.Array("tokenizer.ggml.tokens", 8, tokens).Array("tokenizer.ggml.token_type", 5, types);
  builder.Array("tokenizer.ggml.scores", 6, scores);
  builder.U32("tokenizer.ggml.bos_token_id", 1).U32("tokenizer.ggml.eos_token_id", 2);
  return builder;
}

// Words, spaces, digits and characters outside the vocabulary.
std::string RandomText(std::mt19937* random) {
  const std::vector<std::string> parts = {"the ", "and", " of",  "in", "  ", "0",  "19",
                                          "é",    "日",  "🙂", ".",  "\n", "Th", "ing",
                                          "▁",    "<s>", "\t",   "x",  "qu", "Z",  "½"};
  std::string text;
  const int count = 1 + static_cast<int>((*random)() % 30);
  for (int i = 0; i < count; ++i) text += parts[(*random)() % parts.size()];
  return text;
}

TEST(GgufTokenizer, MergesScoredPiecesLikeTheSentencePieceLibrary) {
  const auto tokenizer =
      Load(FromSpmModel(testing::ReadFile(testing::TestDataPath("tiny-mistral/tokenizer.model"))));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto library = LoadTokenizer(testing::TestDataPath("tiny-mistral"));
  ASSERT_TRUE(library.ok()) << library.status();
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = RandomText(&random);
    ASSERT_EQ(*(*tokenizer)->Encode(text, {}), *(*library)->Encode(text, {})) << text;
  }
  const json expected = *ParseJsonFile(testing::TestDataPath("tiny-mistral/expected.json"));
  for (const auto& entry : expected["texts"]) {
    if (entry["text"] == "") continue;
    EXPECT_EQ(*(*tokenizer)->Encode(entry["text"].get<std::string>(), {}), entry["ids"].get<Ids>())
        << entry["text"];
  }
  EXPECT_EQ((*tokenizer)->digest(), (*library)->digest());
  for (std::int32_t id = 0; id < 1024; ++id) {
    EXPECT_EQ((*tokenizer)->TokenBytes(id, false), (*library)->TokenBytes(id, false)) << id;
    EXPECT_EQ((*tokenizer)->IsSpecial(id), (*library)->IsSpecial(id)) << id;
  }
}

TEST(GgufTokenizer, TakesUnusedPiecesApartAgain) {
  testing::GgufBuilder builder;
  builder.String("tokenizer.ggml.model", "llama");
  builder.Array<std::string>("tokenizer.ggml.tokens", 8, {"<unk>", "<s>", "a", "b", "c", "ab", "abc", "[u]"});
  builder.Array<std::int32_t>("tokenizer.ggml.token_type", 5, {2, 3, 1, 1, 1, 5, 1, 4});
  builder.Array<float>("tokenizer.ggml.scores", 6, {0, 0, -3, -4, -5, -1, -2, 0});
  builder.U32("tokenizer.ggml.bos_token_id", 1).Bool("tokenizer.ggml.add_space_prefix", 0);
  const auto tokenizer = Load(builder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(*(*tokenizer)->Encode("abcab", {}), (Ids{1, 6, 2, 3}));
  EXPECT_EQ(*(*tokenizer)->Encode("a[u]b", {}), (Ids{1, 2, 7, 3}));
  EXPECT_EQ(*(*tokenizer)->Encode("aéb", {}), (Ids{1, 2, 0, 3}));
  EXPECT_FALSE((*tokenizer)->strips_leading_space());
}

TEST(GgufTokenizer, RefusesWhatItDoesNotKnowByName) {
  auto unknown_pre = FromTokenizerJson("tiny-llama", "falcon");
  EXPECT_EQ(Load(unknown_pre).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(Load(unknown_pre).status().message()), HasSubstr("tokenizer.ggml.pre"));
  EXPECT_THAT(std::string(Load(unknown_pre).status().message()), HasSubstr("\"falcon\""));
  auto no_pre = FromTokenizerJson("tiny-llama", "smollm");
  no_pre.Remove("tokenizer.ggml.pre");
  EXPECT_THAT(std::string(Load(no_pre).status().message()), HasSubstr("tokenizer.ggml.pre"));
  auto bert = FromTokenizerJson("tiny-llama", "smollm");
  bert.Remove("tokenizer.ggml.model").String("tokenizer.ggml.model", "bert");
  EXPECT_THAT(std::string(Load(bert).status().message()), HasSubstr("\"bert\""));
}

TEST(GgufTokenizer, RefusesBrokenVocabularies) {
  const auto message = [](testing::GgufBuilder builder) {
    return std::string(Load(builder).status().message());
  };
  const auto good = FromTokenizerJson("tiny-llama", "smollm");
  ASSERT_TRUE(Load(good).ok());
  const auto replaced = [&](const std::string& key) {
    auto builder = good;
    builder.Remove(key);
    return builder;
  };
  EXPECT_THAT(message(replaced("tokenizer.ggml.tokens")), HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(message(replaced("tokenizer.ggml.merges")), HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(message(replaced("tokenizer.ggml.tokens").Array<std::string>("tokenizer.ggml.tokens", 8, {})),
              HasSubstr("is empty"));
  EXPECT_THAT(
      message(replaced("tokenizer.ggml.token_type").Array<std::int32_t>("tokenizer.ggml.token_type", 5, {1})),
      HasSubstr("another length"));
  EXPECT_THAT(
      message(replaced("tokenizer.ggml.token_type")
                  .Array<std::int32_t>("tokenizer.ggml.token_type", 5, std::vector<std::int32_t>(1024, 9))),
      HasSubstr("unknown type"));
  EXPECT_THAT(
      message(replaced("tokenizer.ggml.tokens")
                  .Array<std::string>("tokenizer.ggml.tokens", 8, std::vector<std::string>(1024, "a"))),
      HasSubstr("the text has id"));
  EXPECT_THAT(
      message(replaced("tokenizer.ggml.merges").Array<std::string>("tokenizer.ggml.merges", 8, {"ab"})),
      HasSubstr("entry 0"));
  EXPECT_THAT(message(replaced("tokenizer.ggml.bos_token_id").U32("tokenizer.ggml.bos_token_id", 1024)),
              HasSubstr("bos_token_id"));

  auto scored = FromSpmModel(testing::ReadFile(testing::TestDataPath("tiny-mistral/tokenizer.model")));
  ASSERT_TRUE(Load(scored).ok());
  scored.Remove("tokenizer.ggml.scores");
  EXPECT_THAT(message(scored), HasSubstr("tokenizer.ggml.scores"));
  scored.Array<float>("tokenizer.ggml.scores", 6, std::vector<float>(1024, NAN));
  EXPECT_THAT(message(scored), HasSubstr("not finite"));
}

}  // namespace
}  // namespace scd
