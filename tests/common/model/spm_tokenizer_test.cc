#include "common/model/spm_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/model/spm_model_file.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

std::string ModelBytes() {
  return testing::ReadFile(testing::TestDataPath("tiny-mistral/tokenizer.model"));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& bytes, const std::string& config = "",
                                                const std::string& added = "") {
  const testing::TempDir folder;
  testing::WriteFile(folder.File("tokenizer.model"), bytes);
  if (!config.empty()) testing::WriteFile(folder.File("tokenizer_config.json"), config);
  if (!added.empty()) testing::WriteFile(folder.File("added_tokens.json"), added);
  return LoadTokenizer(folder.path());
}

Ids Encode(const std::string& config, const std::string& text, bool allow_special = true) {
  const auto tokenizer = Load(ModelBytes(), config);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *(*tokenizer)->Encode(text, {.allow_special_tokens = allow_special}) : Ids();
}

TEST(SpmTokenizer, AddsBosByDefaultAndByTheConfig) {
  const Ids with_bos = Encode("", "Hello");
  ASSERT_GT(with_bos.size(), 1u);
  EXPECT_EQ(with_bos[0], 1);
  const Ids text(with_bos.begin() + 1, with_bos.end());
  EXPECT_EQ(Encode(R"({"add_bos_token": false})", "Hello"), text);
  Ids with_both = with_bos;
  with_both.push_back(2);
  EXPECT_EQ(Encode(R"({"add_bos_token": true, "add_eos_token": true})", "Hello"), with_both);
}

TEST(SpmTokenizer, PutsTheDummyPrefixWhereTheConfigSays) {
  const auto tokenizer = Load(ModelBytes(), R"({"legacy": false})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const EncodeOptions options{.allow_special_tokens = true, .add_default_tokens = false};
  const Ids alone = *(*tokenizer)->Encode("a", options);
  const std::int32_t bare_a = *(*tokenizer)->TokenId("a");
  EXPECT_EQ(*(*tokenizer)->Encode("a</s>a", options), (Ids{alone[0], 2, bare_a}));
  const auto legacy = Load(ModelBytes());
  ASSERT_TRUE(legacy.ok());
  EXPECT_EQ(*(*legacy)->Encode("a</s>a", options), (Ids{alone[0], 2, alone[0]}));
}

TEST(SpmTokenizer, KnowsAddedTokens) {
  const auto tokenizer = Load(ModelBytes(), "", R"({"[new]": 1024})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocab_size(), 1025);
  const Ids ids = *(*tokenizer)->Encode("a[new]", {.add_default_tokens = false});
  EXPECT_EQ(ids.back(), 1024);
  EXPECT_EQ((*tokenizer)->Decode(ids, false), "a[new]");
  const auto special = Load(
      ModelBytes(),
      R"({"added_tokens_decoder": {"1024": {"content": "<|end|>", "special": true}}, "eos_token": "<|end|>"})");
  ASSERT_TRUE(special.ok()) << special.status();
  EXPECT_EQ((*special)->eos_id(), 1024);
  EXPECT_TRUE((*special)->IsSpecial(1024));
  EXPECT_EQ((*special)->Encode("<|end|>", {.allow_special_tokens = true})->back(), 1024);
  EXPECT_NE((*special)->Encode("<|end|>", {})->back(), 1024);
  const auto clash = Load(ModelBytes(), "", R"({"[new]": 5})");
  EXPECT_EQ(clash.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SpmTokenizer, DecodesWithoutTheDummyPrefix) {
  const auto tokenizer = Load(ModelBytes());
  ASSERT_TRUE(tokenizer.ok());
  for (const std::string& text : {std::string("Hello"), std::string(" Hello"), std::string("  x"),
                                  std::string("\n a"), std::string("日本 é🙂")}) {
    EXPECT_EQ((*tokenizer)->Decode(*(*tokenizer)->Encode(text, {}), false), text);
  }
  EXPECT_EQ((*tokenizer)->Decode(*(*tokenizer)->Encode("Hi", {}), true), "<s> Hi");
}

// A protocol buffer field of bytes.
std::string Field(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + bytes;
}
std::string Varint(int number, int value) {
  return std::string(1, static_cast<char>(number << 3)) + static_cast<char>(value);
}

TEST(SpmModelFile, ReadsTypesScoresAndFlags) {
  const std::string bytes = Field(1, Field(1, "<unk>") + Varint(3, 2)) +
                            Field(1, Field(1, "a") + std::string("\x15\x00\x00\x80\xBF", 5)) +
                            Field(2, Varint(3, 2)) + Field(3, Varint(3, 0));
  const auto model = ParseSpmModelFile(bytes);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->pieces.size(), 2u);
  EXPECT_EQ(model->pieces[0].type, PieceType::kUnknown);
  EXPECT_EQ(model->pieces[1].text, "a");
  EXPECT_EQ(model->pieces[1].score, -1.0f);
  EXPECT_TRUE(model->is_bpe);
  EXPECT_FALSE(model->add_dummy_prefix);
  const auto overridden = ParseSpmModelFile(bytes + Field(3, Varint(3, 1)));
  ASSERT_TRUE(overridden.ok());
  EXPECT_TRUE(overridden->add_dummy_prefix);
}

TEST(SpmModelFile, RefusesWhatIsNoModel) {
  const std::string piece = Field(1, Field(1, "a"));
  for (const std::string& bytes :
       {std::string(), std::string("\x0A"), std::string("\x0A\x7F") + "a", std::string(20, '\xFF'),
        std::string("\x0F"), Field(1, Field(1, "a") + Varint(3, 7)),
        Field(1, std::string("\x15\x00\x00\xC0\x7F", 5))}) {
    EXPECT_EQ(ParseSpmModelFile(bytes).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(ParseSpmModelFile(piece + Field(2, Varint(3, 4))).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ParseSpmModelFile(piece + Field(3, Field(2, "rules"))).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(SpmTokenizer, SurvivesBrokenFiles) {
  const std::string good = ModelBytes();
  for (std::size_t size = 0; size < good.size(); size += 331) {
    const auto tokenizer = Load(good.substr(0, size));
    if (tokenizer.ok()) continue;  // cut between two pieces, the rest is a smaller model
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("tokenizer.model"));
  }
  for (std::size_t at = 0; at < good.size(); at += 97) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    const auto tokenizer = Load(changed);
    if (!tokenizer.ok()) {
      EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("tokenizer.model"));
    } else {
      EXPECT_TRUE((*tokenizer)->Encode("Hello, world", {}).ok());
    }
  }
}

}  // namespace
}  // namespace scd
