#include "common/model/hf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/io/json.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;
using nlohmann::json;

// Letters, a space in SentencePiece's spelling, two merges and two added tokens.
json SmallFile() {
  return json::parse(R"({
    "version": "1.0",
    "added_tokens": [
      {"id": 0, "content": "<unk>", "special": true},
      {"id": 1, "content": "<s>", "special": true},
      {"id": 20, "content": "[x]", "special": false}
    ],
    "normalizer": null,
    "pre_tokenizer": null,
    "post_processor": null,
    "decoder": null,
    "model": {
      "type": "BPE", "unk_token": "<unk>", "fuse_unk": false,
      "vocab": {"<unk>": 0, "<s>": 1, "a": 2, "b": 3, "c": 4, "▁": 5, "ab": 6, "abc": 7, " ": 8, "x": 9},
      "merges": ["a b", ["ab", "c"]]
    }
  })");
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadText(const std::string& text, const std::string& config = "") {
  const testing::TempDir folder;
  testing::WriteFile(folder.File("tokenizer.json"), text);
  if (!config.empty()) testing::WriteFile(folder.File("tokenizer_config.json"), config);
  return LoadTokenizer(folder.path());
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const json& file, const std::string& config = "") {
  return LoadText(file.dump(), config);
}

Ids Encode(const json& file, const std::string& text, const EncodeOptions& options = {}) {
  const auto tokenizer = Load(file);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  if (!tokenizer.ok()) return {};
  const auto ids = (*tokenizer)->Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(Ids());
}

TEST(HfTokenizer, MergesByRankAndReadsBothSpellingsOfMerges) {
  EXPECT_THAT(Encode(SmallFile(), "abcab"), ElementsAre(7, 6));
  EXPECT_THAT(Encode(SmallFile(), "cba"), ElementsAre(4, 3, 2));
  EXPECT_THAT(Encode(SmallFile(), ""), ElementsAre());
}

TEST(HfTokenizer, GivesUnknownCharactersAsTheFileSays) {
  json file = SmallFile();
  EXPECT_THAT(Encode(file, "aéßb"), ElementsAre(2, 0, 0, 3));
  file["model"]["fuse_unk"] = true;
  EXPECT_THAT(Encode(file, "aéßb"), ElementsAre(2, 0, 3));
  file["model"].erase("unk_token");
  const auto tokenizer = Load(file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Encode("aé", {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(HfTokenizer, FallsBackToBytesAndJoinsThemAgain) {
  json file = SmallFile();
  file["model"]["byte_fallback"] = true;
  file["model"]["vocab"]["<0xC3>"] = 10;
  file["model"]["vocab"]["<0xA9>"] = 11;
  file["decoder"] =
      json::parse(R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]})");
  EXPECT_THAT(Encode(file, "aé"), ElementsAre(2, 10, 11));
  EXPECT_THAT(Encode(file, "ß"), ElementsAre(0));  // not all of its bytes are there
  const auto tokenizer = Load(file);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->Decode({2, 10, 11}, false), "aé");
  EXPECT_EQ((*tokenizer)->Decode({10, 2}, false), "\uFFFDa");
}

TEST(HfTokenizer, SpellsSpacesAsSentencePieceDoes) {
  json file = SmallFile();
  file["normalizer"] = json::parse(R"({"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})");
  file["decoder"] = json::parse(R"({"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
  file["post_processor"] = json::parse(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})");
  EXPECT_THAT(Encode(file, "ab c"), ElementsAre(1, 5, 6, 5, 4));
  EXPECT_THAT(Encode(file, "a<s>b", {.allow_special_tokens = true, .add_default_tokens = false}),
              ElementsAre(5, 2, 1, 5, 3));
  const auto tokenizer = Load(file);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->Decode({1, 5, 6, 5, 4}, false), "ab c");
  EXPECT_EQ((*tokenizer)->Decode({5, 5, 6}, false), " ab");

  // Metaspace says the same by other means, and "first" only at the prompt's start.
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] =
      json::parse(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})");
  EXPECT_THAT(Encode(file, "ab c"), ElementsAre(1, 5, 6, 5, 4));
  EXPECT_THAT(Encode(file, "a<s>b", {.allow_special_tokens = true, .add_default_tokens = false}),
              ElementsAre(5, 2, 1, 3));
}

TEST(HfTokenizer, FindsAddedTokensInPlainTextAndSpecialOnesOnlyWhereAllowed) {
  EXPECT_THAT(Encode(SmallFile(), "a[x]b"), ElementsAre(2, 20, 3));
  EXPECT_THAT(Encode(SmallFile(), "a<s>b", {.allow_special_tokens = true}), ElementsAre(2, 1, 3));
  json file = SmallFile();
  int next = 30;
  for (const char* text : {"<", "s", ">"}) file["model"]["vocab"][text] = next++;
  const Ids plain = Encode(file, "a<s>b");
  EXPECT_EQ(plain.size(), 5u);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 1), 0);
}

TEST(HfTokenizer, NeverMergesTextIntoASpecialToken) {
  json file = SmallFile();
  file["added_tokens"][1]["content"] = "abc";  // id 1 below is free for it
  file["model"]["vocab"].erase("<s>");
  file["added_tokens"][1]["id"] = 7;
  for (const bool ignore_merges : {false, true}) {
    file["model"]["ignore_merges"] = ignore_merges;
    EXPECT_THAT(Encode(file, "abc"), ElementsAre(6, 4));
    EXPECT_THAT(Encode(file, "abc", {.allow_special_tokens = true}), ElementsAre(7));
  }
}

TEST(HfTokenizer, HonoursTheFlagsOfAddedTokens) {
  json file = SmallFile();
  json& token = file["added_tokens"][2];
  token["lstrip"] = true;
  EXPECT_THAT(Encode(file, "a [x] b"), ElementsAre(2, 20, 8, 3));
  token["rstrip"] = true;
  EXPECT_THAT(Encode(file, "a [x] b [x]  [x]"), ElementsAre(2, 20, 3, 20, 20));
  token = {{"id", 20}, {"content", "yx"}, {"single_word", true}};
  file["model"]["vocab"]["y"] = 10;
  EXPECT_THAT(Encode(file, "yx ayx yx"), ElementsAre(20, 8, 2, 10, 9, 8, 20));
  // A normalised token is looked for in normalised text.
  file["normalizer"] = json::parse(R"({"type": "Replace", "pattern": {"String": "c"}, "content": "x"})");
  token = {{"id", 20}, {"content", "xx"}, {"normalized", true}};
  EXPECT_THAT(Encode(file, "accb"), ElementsAre(2, 20, 3));
  token["normalized"] = false;
  EXPECT_THAT(Encode(file, "accb"), ElementsAre(2, 9, 9, 3));
}

TEST(HfTokenizer, SplitsAsTheFileSays) {
  const auto pieces = [](const char* behavior, bool invert) {
    json file = SmallFile();
    file["model"]["ignore_merges"] = true;
    file["model"]["vocab"] = {{"<unk>", 0}, {"<s>", 1},  {"a", 2},    {"b", 3},  {"x", 4},
                              {"xx", 5},    {"ax", 6},   {"xa", 7},   {"xb", 8}, {"xxb", 9},
                              {"bx", 10},   {"axx", 11}, {"axxb", 12}};
    file["model"]["merges"] = json::array();
    file["pre_tokenizer"] = {
        {"type", "Split"}, {"pattern", {{"String", "x"}}}, {"behavior", behavior}, {"invert", invert}};
    return Encode(file, "axxb");
  };
  EXPECT_THAT(pieces("Removed", false), ElementsAre(2, 3));
  EXPECT_THAT(pieces("Removed", true), ElementsAre(4, 4));
  EXPECT_THAT(pieces("Isolated", false), ElementsAre(2, 4, 4, 3));
  EXPECT_THAT(pieces("Isolated", true), ElementsAre(2, 4, 4, 3));
  EXPECT_THAT(pieces("MergedWithPrevious", false), ElementsAre(6, 4, 3));
  EXPECT_THAT(pieces("MergedWithNext", false), ElementsAre(2, 4, 8));
  EXPECT_THAT(pieces("Contiguous", false), ElementsAre(2, 5, 3));
}

TEST(HfTokenizer, TakesBosAndEosFromTheConfig) {
  const auto tokenizer = Load(SmallFile(), R"({"bos_token": "<s>", "eos_token": {"content": "ab"}})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->bos_id(), 1);
  EXPECT_EQ((*tokenizer)->eos_id(), 6);
  EXPECT_TRUE((*tokenizer)->IsSpecial(6));
  const auto missing = Load(SmallFile(), R"({"eos_token": "</s>"})");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("tokenizer_config.json: eos_token"));
}

TEST(HfTokenizer, AddsTheTokensOfTheConfig) {
  const auto tokenizer =
      Load(SmallFile(), R"({"added_tokens_decoder": {"21": {"content": "<new>", "special": true}}})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocab_size(), 22);
  EXPECT_EQ((*tokenizer)->TokenId("<new>"), 21);
  EXPECT_FALSE((*tokenizer)->TokenText(15).has_value());
  const auto clash = Load(SmallFile(), R"({"added_tokens_decoder": {"2": {"content": "<new>"}}})");
  EXPECT_EQ(clash.status().code(), absl::StatusCode::kInvalidArgument);
}

struct Broken {
  const char* pointer;  // JSON pointer of the field that is replaced
  const char* value;
  const char* message;
};

class BrokenFile : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenFile, IsRefusedNamingFileAndField) {
  json file = SmallFile();
  file[json::json_pointer(GetParam().pointer)] = json::parse(GetParam().value);
  const auto tokenizer = Load(file);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("tokenizer.json"));
  EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BrokenFile,
    ::testing::Values(
        Broken{"/model", "[]", "model: expected a JSON object"},
        Broken{"/model/type", "\"Unigram\"", "model: type: \"Unigram\" is not supported"},
        Broken{"/model/vocab/a", "-1", "vocab: a: expected a token id"},
        Broken{"/model/vocab/a", "3", "belongs to"},
        Broken{"/model/vocab/a", "2000000000", "expected a token id"},
        Broken{"/model/vocab/a", "\"2\"", "expected a token id"},
        Broken{"/model/merges/0", "\"ab\"", "merges: entry 0"},
        Broken{"/model/merges/0", "\"a b c\"", "merges: entry 0"},
        Broken{"/model/merges/0", "[\"a\"]", "merges: entry 0"},
        Broken{"/model/merges/0", "\"a z\"", "\"z\" is not in the vocabulary"},
        Broken{"/model/merges/0", "\"b c\"", "\"bc\" is not in the vocabulary"},
        Broken{"/model/merges", "{}", "merges: expected an array"},
        Broken{"/model/unk_token", "\"<no>\"", "unknown token"}, Broken{"/model/dropout", "0.1", "dropout"},
        Broken{"/model/end_of_word_suffix", "\"</w>\"", "end_of_word_suffix"},
        Broken{"/normalizer", "{\"type\": \"Lowercase\"}", "normalizer: type: \"Lowercase\""},
        Broken{"/normalizer", "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFKC\"}]}", "NFKC"},
        Broken{"/normalizer", "7", "normalizer"},
        Broken{"/pre_tokenizer", "{\"type\": \"BertPreTokenizer\"}", "BertPreTokenizer"},
        Broken{"/pre_tokenizer",
               "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a\"}, \"behavior\": \"Isolated\"}",
               "regular expression"},
        Broken{"/pre_tokenizer",
               "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Sideways\"}",
               "Sideways"},
        Broken{"/post_processor", "{\"type\": \"RobertaProcessing\"}", "RobertaProcessing"},
        Broken{"/post_processor",
               "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"q\"}}]}",
               "special_tokens"},
        Broken{"/decoder", "{\"type\": \"WordPiece\"}", "WordPiece"},
        Broken{"/added_tokens/0/id", "2", "belongs to"},
        Broken{"/added_tokens/0/content", "7", "content: expected a string"},
        Broken{"/added_tokens/0/content", "\"\"", "empty"}, Broken{"/added_tokens/0/lstrip", "1", "lstrip"},
        Broken{"/added_tokens", "{}", "added_tokens: expected an array"}));

class HostileCase : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(HostileCase, IsRefusedAndItsNeighbourLoads) {
  const auto& [name, message] = GetParam();
  SCD_SHARED_OR_SKIP(path, std::string("cases/tokenizer/") + name + ".json");
  const std::string text = testing::ReadFile(path);
  const auto tokenizer = LoadText(text);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("tokenizer.json"));
  EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(message));

  json repaired = json::parse(text);
  json& model = repaired["model"];
  if (std::string(name) == "merge_of_unknown_token")
    model = {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}};
  if (std::string(name) == "duplicate_ids") model["vocab"]["b"] = 1;
  if (std::string(name) == "bad_regex") {
    repaired["pre_tokenizer"]["pattern"]["Regex"] = "(\\p{L}+)";
    model["merges"] = json::array();
  }
  if (std::string(name) == "unknown_model_type") {
    model["type"] = "BPE";
    model["merges"] = json::array();
  }
  const auto neighbour = Load(repaired);
  EXPECT_TRUE(neighbour.ok()) << neighbour.status();
}

INSTANTIATE_TEST_SUITE_P(All, HostileCase,
                         ::testing::Values(std::pair{"merge_of_unknown_token",
                                                     "\"c\" is not in the vocabulary"},
                                           std::pair{"duplicate_ids", "the id belongs to"},
                                           std::pair{"bad_regex", "regular expression"},
                                           std::pair{"unknown_model_type", "\"WordLevel\" is not supported"}),
                         [](const auto& info) { return std::string(info.param.first); });

TEST(HfTokenizer, RefusesTextThatIsNoJson) {
  for (const std::string& text : {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
                                  std::string(50000, '['), std::string("{\"model\": \"\xFF\"}")}) {
    const auto tokenizer = LoadText(text);
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("tokenizer.json"));
  }
}

TEST(HfTokenizer, SurvivesEveryTruncationOfARealFile) {
  const std::string text = testing::ReadFile(testing::TestDataPath("tiny-llama/tokenizer.json"));
  ASSERT_GT(text.size(), 10000u);
  const std::size_t last = text.find_last_of('}');
  for (std::size_t size = 0; size < last; size += 997) EXPECT_FALSE(LoadText(text.substr(0, size)).ok());
}

TEST(LoadTokenizer, SaysWhatIsMissing) {
  const testing::TempDir folder;
  const auto tokenizer = LoadTokenizer(folder.path());
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(folder.path()));
}

}  // namespace
}  // namespace scd
