// The readers on the real data sets, where they are there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/model/tokenizer.h"
#include "eval/datasets/lm_dataset.h"
#include "eval/datasets/prompt_template.h"
#include "eval/datasets/qa_dataset.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

TEST(SharedDatasetsTest, CmrcQuestions) {
  SCD_SHARED_OR_SKIP(path, "data/cmrc2018_dev_60.json");
  const auto dataset = ReadQaDataset(path, std::nullopt, {}).value();
  EXPECT_EQ(dataset.format, "cmrc2018");
  ASSERT_GE(dataset.items.size(), 60u);
  std::size_t num_in_context = 0;
  for (const QaItem& item : dataset.items) {
    ASSERT_FALSE(item.references.empty()) << item.id;
    // The first answer is marked in the context; others need not be in it, but are right too.
    num_in_context += item.context.find(item.references[0]) != std::string::npos;
    for (const std::string& reference : item.references) {
      const AnswerScore score = ScoreAnswer(item.scorer, reference, item.references);
      EXPECT_EQ(score.exact, 1) << item.id;
      EXPECT_DOUBLE_EQ(score.f1, 1) << item.id;
    }
  }
  EXPECT_EQ(num_in_context, dataset.items.size());
}

TEST(SharedDatasetsTest, EnglishQuestions) {
  SCD_SHARED_OR_SKIP(path, "data/eval_qa.jsonl");
  const auto dataset = ReadQaDataset(path, std::nullopt, {}).value();
  EXPECT_EQ(dataset.format, "jsonl");
  ASSERT_EQ(dataset.items.size(), 200u);
  const PromptTemplate prompt = PromptTemplate::Parse(kDefaultPromptTemplate).value();
  for (const QaItem& item : dataset.items) {
    EXPECT_EQ(prompt.Render(item).value(),
              "Context: " + item.context + "\nQuestion: " + item.question + "\nAnswer:");
    EXPECT_EQ(ScoreAnswer(item.scorer, "The " + item.references[0] + ".", item.references).exact, 1)
        << item.id;
  }
}

TEST(SharedDatasetsTest, WindowsOfIds) {
  SCD_SHARED_OR_SKIP(path, "data/eval_lm.jsonl");
  const auto dataset = ReadLmDataset(path, std::nullopt, {}, {.limit = 10}).value();
  EXPECT_EQ(dataset.format, "jsonl");
  ASSERT_EQ(dataset.items.size(), 10u);
  for (const LmItem& item : dataset.items) {
    EXPECT_EQ(std::get<std::vector<std::int32_t>>(item.prefix).size(), 256u);
    EXPECT_EQ(std::get<std::vector<std::int32_t>>(item.continuation).size(), 128u);
  }
}

TEST(SharedDatasetsTest, WikiText) {
  SCD_SHARED_OR_SKIP(path, "data/wikitext-2-valid.txt");
  const auto tokenizer = LoadTokenizer(testing::TestDataPath("tiny-llama")).value();
  const TextWindows windows = WindowsFor(*tokenizer, 256, 128).value();
  const auto dataset = ReadLmDataset(path, std::nullopt, windows, {.limit = 40}).value();
  EXPECT_EQ(dataset.format, "text");
  ASSERT_EQ(dataset.items.size(), 40u);
  EXPECT_EQ(dataset.items[1].id, "token " + std::to_string(384 - windows.leading_ids.size()));
  const auto& prefix = std::get<std::vector<std::int32_t>>(dataset.items[0].prefix);
  EXPECT_NE(tokenizer->Decode(prefix, false).find("Homarus gammarus"), std::string::npos);
}

}  // namespace
}  // namespace scd
