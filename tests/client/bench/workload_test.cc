#include "client/bench/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t kVocabulary = 1000;

std::vector<std::int32_t> Ids(const v1::Prompt& prompt) {
  return {prompt.tokens().ids().begin(), prompt.tokens().ids().end()};
}

Workload Make(const WorkloadOptions& options, std::uint64_t seed = 1) {
  auto workload = Workload::Create(options, kVocabulary, seed);
  EXPECT_TRUE(workload.ok()) << workload.status();
  return *std::move(workload);
}

TEST(Workload, MadeUpPromptsHaveTheirLengthsInTurns) {
  const Workload workload = Make({.prompt_tokens = {5, 9}});
  std::set<std::vector<std::int32_t>> seen;
  for (std::uint64_t level = 0; level < 2; ++level) {
    for (std::uint64_t i = 0; i < 6; ++i) {
      const auto ids = Ids(workload.PromptOf(level, i));
      EXPECT_EQ(ids.size(), i % 2 == 0 ? 5u : 9u);
      for (const std::int32_t id : ids) {
        EXPECT_GE(id, 125);
        EXPECT_LT(id, 750);
      }
      EXPECT_TRUE(seen.insert(ids).second) << "a prompt came twice";
    }
  }
}

TEST(Workload, TheSeedMakesThePrompts) {
  const WorkloadOptions options{.prompt_tokens = {20}};
  EXPECT_EQ(Ids(Make(options, 3).PromptOf(0, 4)), Ids(Make(options, 3).PromptOf(0, 4)));
  EXPECT_NE(Ids(Make(options, 3).PromptOf(0, 4)), Ids(Make(options, 4).PromptOf(0, 4)));
}

TEST(Workload, SharedPrefixesDifferInTheirQuestionsAlone) {
  const Workload workload = Make({.shared_prefix_tokens = 50, .questions = 3, .question_tokens = 4});
  const auto prefix = [&](std::uint64_t level, std::uint64_t i) {
    auto ids = Ids(workload.PromptOf(level, i));
    EXPECT_EQ(ids.size(), 54u);
    ids.resize(50);
    return ids;
  };
  std::set<std::vector<std::int32_t>> prompts;
  for (std::uint64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(prefix(0, i), prefix(0, 0));
    prompts.insert(Ids(workload.PromptOf(0, i)));
  }
  EXPECT_EQ(prompts.size(), 3u);
  EXPECT_NE(prefix(1, 0), prefix(0, 0)) << "a level would find what the one before left in the caches";
}

TEST(Workload, TooSmallAVocabularyIsRefused) {
  EXPECT_EQ(Workload::Create({}, 8, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Workload, FilesAreTakenInOrderAndAgain) {
  const testing::TempDir folder;
  const std::string path = folder.File("prompts.jsonl");
  testing::WriteFile(path,
                     "{\"prompt\": \"first\", \"more\": 1}\n"
                     "\n"
                     "{\"prefix_ids\": [1, 2, 3]}\n"
                     "{\"context\": \"C\", \"question\": \"Q?\", \"answers\": [\"A\"]}\n"
                     "{\"text\": \"last\"}");
  const Workload workload = Make({.prompts_file = path});
  EXPECT_EQ(workload.PromptOf(0, 0).text(), "first");
  EXPECT_THAT(Ids(workload.PromptOf(0, 1)), ElementsAre(1, 2, 3));
  EXPECT_EQ(workload.PromptOf(0, 2).text(), "Context: C\nQuestion: Q?\nAnswer:");
  EXPECT_EQ(workload.PromptOf(0, 3).text(), "last");
  EXPECT_EQ(workload.PromptOf(0, 4).text(), "first");
  EXPECT_THAT(workload.Describe(), HasSubstr("4 prompts of "));
}

TEST(Workload, BadFilesAreNamedWithTheLine) {
  const testing::TempDir folder;
  const std::string path = folder.File("prompts.jsonl");
  const auto error = [&](const std::string& contents) {
    testing::WriteFile(path, contents);
    const auto status = Workload::Create({.prompts_file = path}, kVocabulary, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << contents;
    return std::string(status.message());
  };
  for (const char* line : {"{\"prompt\": 5}", "{", "[]", "{\"prompt_ids\": []}", "{\"prompt_ids\": [-1]}",
                           "{\"prompt_ids\": [3000000000]}", "{\"prompt_ids\": [1.5]}", "{\"prompt\": \"\"}",
                           "{\"context\": \"C\"}"}) {
    EXPECT_THAT(error(std::string("{\"prompt\": \"a\"}\n") + line), HasSubstr("prompts.jsonl line 2"))
        << line;
  }
  EXPECT_THAT(error("\n\n"), HasSubstr("has no prompt"));
  EXPECT_THAT(
      std::string(Workload::Create({.prompts_file = folder.File("no")}, kVocabulary, 1).status().message()),
      HasSubstr("cannot be opened"));
}

}  // namespace
}  // namespace scd
