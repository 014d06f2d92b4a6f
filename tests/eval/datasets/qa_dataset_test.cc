#include "eval/datasets/qa_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Dataset<QaItem> Read(const std::string& sample, ReadOptions options = {}) {
  auto dataset = ReadQaDataset(testing::TestDataPath("eval/" + sample), std::nullopt, options);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return dataset.ok() ? *std::move(dataset) : Dataset<QaItem>{};
}

TEST(QaDatasetTest, SquadV1) {
  const Dataset<QaItem> dataset = Read("squad_v1.json");
  EXPECT_EQ(dataset.format, "squad_v1");
  ASSERT_EQ(dataset.items.size(), 3u);
  const QaItem& first = dataset.items[0];
  EXPECT_EQ(first.id, "k1");
  EXPECT_EQ(first.title, "Tamm kiln");
  EXPECT_THAT(first.context, StartsWith("The Tamm kiln was built in 1807"));
  EXPECT_EQ(first.question, "When was the kiln built?");
  EXPECT_THAT(first.references, ElementsAre("in 1807", "1807"));
  EXPECT_EQ(first.scorer, QaScorer::kSquadV1);
  EXPECT_FALSE(first.no_answer);
  EXPECT_FALSE(first.prompt);
  EXPECT_EQ(dataset.items[2].title, "Hens");
  EXPECT_THAT(dataset.items[2].context, StartsWith("Seven red hens"));
}

TEST(QaDatasetTest, SquadV2) {
  const Dataset<QaItem> dataset = Read("squad_v2.json");
  EXPECT_EQ(dataset.format, "squad_v2");
  ASSERT_EQ(dataset.items.size(), 2u);
  EXPECT_FALSE(dataset.items[0].no_answer);
  EXPECT_THAT(dataset.items[0].references, ElementsAre("oak"));
  EXPECT_TRUE(dataset.items[1].no_answer);
  EXPECT_THAT(dataset.items[1].references, IsEmpty());
  EXPECT_EQ(dataset.items[1].scorer, QaScorer::kSquadV2);
}

TEST(QaDatasetTest, CmrcInBothLayouts) {
  const Dataset<QaItem> nested = Read("cmrc2018.json");
  EXPECT_EQ(nested.format, "cmrc2018");
  ASSERT_EQ(nested.items.size(), 2u);
  EXPECT_EQ(nested.items[0].id, "B_0_Q_0");
  EXPECT_EQ(nested.items[0].scorer, QaScorer::kCmrc2018);
  EXPECT_THAT(nested.items[0].references, ElementsAre("1987年", "1987", "1987年"));

  const Dataset<QaItem> flat = Read("cmrc2018_flat.json");
  EXPECT_EQ(flat.format, "cmrc2018_flat");
  ASSERT_EQ(flat.items.size(), 3u);
  EXPECT_EQ(flat.items[0].id, "B_0_Q_0");
  EXPECT_EQ(flat.items[0].context, nested.items[0].context);
  EXPECT_EQ(flat.items[1].question, nested.items[1].question);
  EXPECT_EQ(flat.items[2].title, "小屋");
  EXPECT_EQ(flat.items[2].scorer, QaScorer::kCmrc2018);
}

TEST(QaDatasetTest, HotpotQa) {
  const Dataset<QaItem> dataset = Read("hotpotqa.json");
  EXPECT_EQ(dataset.format, "hotpotqa");
  ASSERT_EQ(dataset.items.size(), 2u);
  EXPECT_EQ(dataset.items[0].id, "5f0a");
  EXPECT_EQ(dataset.items[0].scorer, QaScorer::kHotpotQa);
  EXPECT_THAT(dataset.items[0].references, ElementsAre("Mara Oyelaran"));
  EXPECT_EQ(dataset.items[0].context,
            "Tamm kiln: The Tamm kiln was built in 1807. Its builder was Mara Oyelaran.\n"
            "Old lighthouse: The old lighthouse is white. A kiln stood beside it.\n"
            "Hens: Seven red hens lived on the hill.");
}

TEST(QaDatasetTest, Jsonl) {
  const Dataset<QaItem> dataset = Read("qa.jsonl");
  EXPECT_EQ(dataset.format, "jsonl");
  ASSERT_EQ(dataset.items.size(), 3u);
  EXPECT_EQ(dataset.items[0].id, "line 1");
  EXPECT_EQ(dataset.items[0].scorer, QaScorer::kSquadV2);
  EXPECT_EQ(dataset.items[1].id, "p");
  EXPECT_EQ(dataset.items[1].prompt, "Say the colour of the hens:");
  EXPECT_EQ(dataset.items[1].scorer, QaScorer::kSquadV1);
  EXPECT_TRUE(dataset.items[2].no_answer);
}

TEST(QaDatasetTest, TheLimitCountsItemsAndStopsReading) {
  EXPECT_EQ(Read("squad_v1.json", {.limit = 2}).items.size(), 2u);
  EXPECT_EQ(Read("cmrc2018_flat.json", {.limit = 1}).items.size(), 1u);
  EXPECT_EQ(Read("hotpotqa.json", {.limit = 1}).items.size(), 1u);
  testing::TempDir dir;
  testing::WriteFile(dir.File("a.jsonl"), "{\"question\": \"q\", \"answers\": [\"a\"]}\nbroken\n");
  EXPECT_TRUE(ReadQaDataset(dir.File("a.jsonl"), QaFormat::kJsonl, {.limit = 1}).ok());
  EXPECT_FALSE(ReadQaDataset(dir.File("a.jsonl"), QaFormat::kJsonl, {.limit = 2}).ok());
}

std::string DetectionError(const std::string& text) {
  const auto format = DetectQaFormat(text);
  EXPECT_FALSE(format.ok()) << QaFormatName(*format);
  return std::string(format.status().message());
}

TEST(QaDatasetTest, ALayoutThatIsNotClearIsNotGuessed) {
  const std::string questions =
      R"([{"paragraphs": [{"context": "c", "qas": [{"id": "1", "question": "q", "answers": [{"text": "a"}]}]}]}])";
  for (const std::string& text :
       {R"({"data": )" + questions + "}", R"({"version": "v1.0", "data": )" + questions + "}",
        R"({"version": 1.1, "data": )" + questions + "}",
        std::string(R"({"version": "1.1", "data": [{"paragraphs": [{"qas": [{"is_impossible": false}]}]}]})"),
        std::string(R"({"version": "2.0", "data": [{"paragraphs": [{"id": "D", "qas": []}]}]})")}) {
    EXPECT_THAT(DetectionError(text), HasSubstr("name its format: squad_v1, squad_v2, cmrc2018")) << text;
  }
  EXPECT_THAT(DetectionError("[]"), HasSubstr("name its format: cmrc2018_flat, hotpotqa"));
  EXPECT_THAT(DetectionError(R"([{"_id": 1, "context": 1, "question": 1, "context_text": "", "qas": []}])"),
              HasSubstr("cmrc2018_flat, hotpotqa"));
  for (const char* text :
       {"", "plain text", "{\"prompt\": \"p\"}", "{", "{\"data\": 1, \"prompt\": 1, \"answers\": 1}"}) {
    EXPECT_THAT(DetectionError(text),
                HasSubstr("squad_v1, squad_v2, cmrc2018, cmrc2018_flat, hotpotqa, jsonl"));
  }
  EXPECT_EQ(DetectQaFormat(R"({"data": )" + questions + R"(, "version": "1.1"})").value(),
            QaFormat::kSquadV1);
  EXPECT_EQ(DetectQaFormat(R"([7, {"_id": "1", "context": [], "question": "q"}])").value(),
            QaFormat::kHotpotQa);
}

TEST(QaDatasetTest, ANamedFormatIsTakenAtItsWord) {
  const std::string path = testing::TestDataPath("eval/squad_v1.json");
  EXPECT_EQ(ReadQaDataset(path, QaFormat::kSquadV2, {}).value().items[0].scorer, QaScorer::kSquadV2);
  EXPECT_THAT(ReadQaDataset(path, QaFormat::kHotpotQa, {}).status().message(),
              HasSubstr("squad_v1.json: expected a JSON list"));
  EXPECT_FALSE(ReadQaDataset(path, QaFormat::kJsonl, {}).ok());
  for (const std::string& name : QaFormatNames()) EXPECT_EQ(QaFormatName(ParseQaFormat(name).value()), name);
  EXPECT_FALSE(ParseQaFormat("squad"));
}

TEST(QaDatasetTest, FilesThatHoldNothing) {
  testing::TempDir dir;
  EXPECT_TRUE(absl::IsNotFound(ReadQaDataset(dir.File("none"), std::nullopt, {}).status()));
  testing::WriteFile(dir.File("empty"), "");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadQaDataset(dir.File("empty"), std::nullopt, {}).status()));
  EXPECT_THAT(ReadQaDataset(dir.File("empty"), QaFormat::kJsonl, {}).status().message(),
              HasSubstr("holds no question"));
  testing::WriteFile(dir.File("list"), "[]");
  EXPECT_THAT(ReadQaDataset(dir.File("list"), QaFormat::kHotpotQa, {}).status().message(),
              HasSubstr("holds no question"));
}

TEST(QaDatasetTest, AByteOrderMarkIsSkipped) {
  testing::TempDir dir;
  testing::WriteFile(dir.File("bom.jsonl"), "\xEF\xBB\xBF{\"question\": \"q\", \"answers\": [\"a\"]}\r\n");
  EXPECT_EQ(ReadQaDataset(dir.File("bom.jsonl"), std::nullopt, {}).value().items[0].question, "q");
}

}  // namespace
}  // namespace scd
