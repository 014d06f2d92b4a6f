#include "common/model/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "common/model/pre_tokenizer.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::Create(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  std::vector<std::string> out;
  if (!regex.ok()) return out;
  RegexScratch scratch;
  std::vector<MatchRange> ranges;
  const absl::Status status = (*regex)->FindAll(text, &scratch, &ranges);
  EXPECT_TRUE(status.ok()) << status;
  for (const MatchRange& range : ranges) out.emplace_back(text.substr(range.begin, range.end - range.begin));
  return out;
}

TEST(Regex, MatchesUnicodeClasses) {
  EXPECT_THAT(Matches(R"(\p{L}+)", "añb 日本 ½x"), ElementsAre("añb", "日本", "x"));
  EXPECT_THAT(Matches(R"(\p{N})", "1½²Ⅷ３a"), ElementsAre("1", "½", "²", "Ⅷ", "３"));
  EXPECT_THAT(Matches(R"((?i:'s|'ll))", "'S'll'Ll'ſ"), ElementsAre("'S", "'ll", "'Ll", "'ſ"));
}

TEST(Regex, TakesWhiteSpaceAsOnigurumaDoes) {
  EXPECT_THAT(Matches(R"(\s)", "a\u180E\u200B\u0085\u00A0\u3000\x1C\x0B"),
              ElementsAre("\u0085", "\u00A0", "\u3000", "\x0B"));
  EXPECT_THAT(Matches(R"(\S+)", "a\u180E b"), ElementsAre("a\u180E", "b"));
  EXPECT_THAT(Matches(R"([^\s]+)", "a\u180E\u2028b"), ElementsAre("a\u180E", "b"));
  EXPECT_THAT(Matches(R"([^\S\r\n]+)", "a \u3000\n\tb"), ElementsAre(" \u3000", "\t"));
  EXPECT_THAT(Matches(R"(\s+(?!\S)|\s+)", "a   b"), ElementsAre("  ", " "));
}

TEST(Regex, IgnoresEmptyMatches) {
  EXPECT_THAT(Matches("a*", "baaéa"), ElementsAre("aa", "a"));
  EXPECT_THAT(Matches("", "ab"), ElementsAre());
  EXPECT_THAT(Matches("a", ""), ElementsAre());
}

TEST(Regex, RefusesWhatMeansAnotherThing) {
  for (const char* pattern : {R"(\w+)", R"(\bx)", R"([[:alpha:]])", R"([a&&b])", R"(\p{N}{1,3}+)", R"((?m)a)",
                              R"((?<n>a))", R"((*UTF)a)", R"(\1)", R"(\h)", R"(\R)"}) {
    const auto regex = Regex::Create(pattern);
    EXPECT_EQ(regex.status().code(), absl::StatusCode::kUnimplemented) << pattern << ": " << regex.status();
  }
  for (const char* pattern : {"(a", "a)", "[a", R"(\p{Nope})", "a\\", "*", R"(\x{110000})"}) {
    const auto regex = Regex::Create(pattern);
    EXPECT_EQ(regex.status().code(), absl::StatusCode::kInvalidArgument) << pattern << ": " << regex.status();
    EXPECT_THAT(std::string(regex.status().message()), HasSubstr("regular expression"));
  }
  EXPECT_FALSE(Regex::Create(std::string(20000, 'a')).ok());
}

TEST(Regex, GivesUpOnRunawayBacktracking) {
  const auto regex = Regex::Create("(?:a|aa)+b|(?:a|aa)+c");
  ASSERT_TRUE(regex.ok());
  RegexScratch scratch;
  std::vector<MatchRange> ranges;
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = (*regex)->FindAll(std::string(100000, 'a'), &scratch, &ranges);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Regex, KnowsThePatternsOfWellKnownVocabularies) {
  EXPECT_THAT(Matches(kGpt2Pattern, "I'll pay $12.50  now"),
              ElementsAre("I", "'ll", " pay", " $", "12", ".", "50", " ", " now"));
  EXPECT_THAT(Matches(kLlama3Pattern, "I'LL 12345\n\n x"),
              ElementsAre("I", "'LL", " ", "123", "45", "\n\n", " x"));
  EXPECT_THAT(Matches(kQwen2Pattern, "a 123"), ElementsAre("a", " ", "1", "2", "3"));
}

}  // namespace
}  // namespace scd
