#include "calibrate/seed_prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SeedPart Text(const std::string& text) {
  return {.text = text, .num_sampled = 0};
}
SeedPart Sampled(std::int64_t count) {
  return {.text = "", .num_sampled = count};
}

TEST(SeedPromptsTest, PromptsCommentsAndMarks) {
  const auto prompts =
      ParseSeedPrompts(
          "# a comment\nOnce upon\n\n\nContext: A {90}\r\n# inside\nQuestion: W{14}\nAnswer:\n\n"
          "Braces {x} {} { 3} stay\n",
          "seeds.txt")
          .value();
  ASSERT_EQ(prompts.size(), 3u);
  EXPECT_THAT(prompts[0], ElementsAre(Text("Once upon")));
  EXPECT_THAT(prompts[1], ElementsAre(Text("Context: A "), Sampled(90), Text("\nQuestion: W"), Sampled(14),
                                      Text("\nAnswer:")));
  EXPECT_THAT(prompts[2], ElementsAre(Text("Braces {x} {} { 3} stay")));
}

TEST(SeedPromptsTest, MistakesAreNamedByLine) {
  const auto error = [](const std::string& text) {
    return std::string(ParseSeedPrompts(text, "seeds.txt").status().message());
  };
  EXPECT_THAT(error(""), HasSubstr("seeds.txt: holds no prompt"));
  EXPECT_THAT(error("# only a comment\n\n"), HasSubstr("holds no prompt"));
  EXPECT_THAT(error("good\n\nText {0}\n"), HasSubstr("seeds.txt:3"));
  EXPECT_THAT(error("Text {99999999999999999999}\n"), HasSubstr("seeds.txt:1"));
  EXPECT_THAT(error("{5} first\n"), HasSubstr("starts with text"));
}

TEST(SeedPromptsTest, TheShippedPromptsAreManyAndVaried) {
  const std::string path = testing::TestDataPath("../../configs/seed_prompts.txt");
  const auto prompts = ParseSeedPrompts(testing::ReadFile(path), path).value();
  EXPECT_GE(prompts.size(), 60u);
  std::int64_t questions = 0;
  for (const SeedPrompt& prompt : prompts) questions += prompt.size() == 5 ? 1 : 0;
  EXPECT_GE(questions, 20);
}

}  // namespace
}  // namespace scd
