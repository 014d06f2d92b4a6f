// What holds across tokenizers: which ids two of them share, and bounded work on hostile text.
#include "common/model/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/io/json.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// tiny-llama's tokenizer.json after a change.
std::unique_ptr<Tokenizer> Changed(const std::function<void(json&)>& change) {
  json file = *ParseJsonFile(testing::TestDataPath("tiny-llama/tokenizer.json"));
  change(file);
  const testing::TempDir folder;
  testing::WriteFile(folder.File("tokenizer.json"), file.dump());
  auto tokenizer = LoadTokenizer(folder.path());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

json Added(int id, const std::string& content) {
  return {{"id", id}, {"content", content}, {"special", true}};
}

TEST(UntranslatableIds, AreThoseThatTheProducerLacksOrMapsToOtherText) {
  const auto base = Changed([](json&) {});
  const auto larger = Changed([](json& file) {
    file["added_tokens"].push_back(Added(1024, "<|a|>"));
    file["added_tokens"].push_back(Added(1027, "<|b|>"));
  });
  const auto renamed = Changed([](json& file) {
    file["added_tokens"].push_back(Added(1024, "<|c|>"));
    file["added_tokens"].push_back(Added(1027, "<|b|>"));
  });
  ASSERT_TRUE(base && larger && renamed);
  EXPECT_THAT(*UntranslatableIds(*base, *base), IsEmpty());
  EXPECT_THAT(*UntranslatableIds(*base, *larger), ElementsAre(1024, 1025, 1026, 1027));
  EXPECT_THAT(*UntranslatableIds(*larger, *base), IsEmpty());
  EXPECT_THAT(*UntranslatableIds(*renamed, *larger), ElementsAre(1024, 1025, 1026));
}

TEST(UntranslatableIds, RefusesAnotherVocabulary) {
  const auto llama = LoadTokenizer(testing::TestDataPath("tiny-llama"));
  const auto mistral = LoadTokenizer(testing::TestDataPath("tiny-mistral"));
  ASSERT_TRUE(llama.ok() && mistral.ok());
  const auto ids = UntranslatableIds(**llama, **mistral);
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(ids.status().message()), HasSubstr("differ in more than added tokens"));
}

TEST(TokenizerDigest, FollowsVocabularyMergesAndRules) {
  const auto base = Changed([](json&) {});
  ASSERT_NE(base, nullptr);
  EXPECT_EQ(Changed([](json&) {})->digest(), base->digest());
  EXPECT_EQ(base->digest(), (*LoadTokenizer(testing::TestDataPath("tiny-llama")))->digest());
  const std::vector<std::function<void(json&)>> changes = {
      [](json& file) { file["added_tokens"].push_back(Added(1024, "<|a|>")); },
      [](json& file) { file["model"]["merges"].erase(764); },
      [](json& file) { std::swap(file["model"]["merges"][0], file["model"]["merges"][1]); },
      [](json& file) {
        file["normalizer"] = {{"type", "NFC"}};
      },
      [](json& file) {
        file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
      },
      [](json& file) { file["model"]["ignore_merges"] = true; },
  };
  std::vector<std::string> seen = {base->digest().ToHex()};
  for (const auto& change : changes) {
    const auto tokenizer = Changed(change);
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_THAT(seen, ::testing::Not(::testing::Contains(tokenizer->digest().ToHex())));
    seen.push_back(tokenizer->digest().ToHex());
  }
}

std::string Repeated(std::string_view part, std::size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += part;
  return out;
}

class Bounded : public ::testing::TestWithParam<const char*> {};

TEST_P(Bounded, EncodesAMegabyteOfAnything) {
  const auto tokenizer = LoadTokenizer(testing::TestDataPath(GetParam()));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  constexpr std::size_t kMegabyte = 1 << 20;
  for (const char* part : {"a", " ", "the", "1", "<", "<|im_start", "<|im_end|>", "\n ", "é", "e\u0301\u0323",
                           "日", "'", "\xF0\x9F\x99\x82"}) {
    const std::string text = Repeated(part, kMegabyte);
    const auto start = std::chrono::steady_clock::now();
    const auto ids = (*tokenizer)->Encode(text, {.allow_special_tokens = true});
    const auto taken = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(ids.ok()) << part << ": " << ids.status();
    EXPECT_GT(ids->size(), 1000u);
    EXPECT_LT(taken, std::chrono::seconds(20)) << part;
  }
}

TEST_P(Bounded, RefusesTextBeyondEveryBound) {
  const auto tokenizer = LoadTokenizer(testing::TestDataPath(GetParam()));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Encode(std::string((64 << 20) + 1, 'a'), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(All, Bounded,
                         ::testing::Values("tiny-llama", "tiny-llama3", "tiny-qwen2", "tiny-mistral"));

}  // namespace
}  // namespace scd
