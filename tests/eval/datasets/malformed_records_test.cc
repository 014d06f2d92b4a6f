#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "eval/datasets/qa_dataset.h"
#include "eval/datasets/qa_readers.h"
#include "eval/datasets/record_fields.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MalformedRecordsTest : public ::testing::Test {
 protected:
  absl::StatusOr<Dataset<QaItem>> Read(const std::string& text, QaFormat format,
                                       OnError on_error = OnError::kSkip) {
    testing::WriteFile(dir_.File("data"), text);
    return ReadQaDataset(dir_.File("data"), format, {.on_error = on_error});
  }
  // "index path: message" of the only malformed record.
  std::string Malformed(const std::string& text, QaFormat format) {
    const auto dataset = Read(text, format);
    EXPECT_TRUE(dataset.ok()) << dataset.status() << " for " << text;
    if (!dataset.ok() || dataset->malformed.size() != 1) return "not one";
    const MalformedRecord& record = dataset->malformed[0];
    return absl::StrCat(record.index, " ", record.path, ": ", record.message);
  }

  testing::TempDir dir_;
};

std::string Squad(const std::string& questions) {
  return absl::StrCat(
      R"({"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "c", "qas": [)",
      R"({"id": "1", "question": "q", "answers": [{"text": "a", "answer_start": 0}]}, )", questions,
      "]}]}]}");
}

TEST_F(MalformedRecordsTest, SquadNamesTheFieldOfTheQuestion) {
  const auto malformed = [&](const std::string& question) {
    return Malformed(Squad(question), QaFormat::kSquadV1);
  };
  const std::string at = "1 data[0].paragraphs[0].qas[1]";
  EXPECT_EQ(malformed("7"), at + ": expected an object, got a number");
  EXPECT_EQ(malformed(R"({"question": "q", "answers": [{"text": "a"}]})"), at + ".id: missing");
  EXPECT_EQ(malformed(R"({"id": 5, "question": "q", "answers": [{"text": "a"}]})"),
            at + ".id: expected a string, got a number");
  EXPECT_EQ(malformed(R"({"id": "2", "question": ["q"], "answers": [{"text": "a"}]})"),
            at + ".question: expected a string, got a list");
  EXPECT_EQ(malformed(R"({"id": "2", "question": null, "answers": [{"text": "a"}]})"),
            at + ".question: expected a string, got null");
  EXPECT_EQ(malformed(R"({"id": "2", "question": "q", "answers": {"text": ["a"]}})"),
            at + ".answers: expected a list, got an object");
  EXPECT_EQ(malformed(R"({"id": "2", "question": "q", "answers": [{"text": "a"}, {"text": true}]})"),
            at + ".answers[1].text: expected a string, got true or false");
  EXPECT_EQ(malformed(R"({"id": "2", "question": "q", "answers": [{"text": "a", "answer_start": 0.5}]})"),
            at + ".answers[0].answer_start: expected an integer, got a number");
  EXPECT_EQ(malformed(R"({"id": "2", "question": "q", "answers": []})"),
            at + ".answers: empty, and is_impossible is not true");
  EXPECT_EQ(malformed(R"({"id": "2", "question": "q", "answers": [], "is_impossible": true})"),
            at + ".is_impossible: true, which SQuAD v1.1 does not know");
  EXPECT_EQ(
      Malformed(Squad(R"({"id": "2", "question": "q", "answers": [{"text": "a"}], "is_impossible": true})"),
                QaFormat::kSquadV2),
      at + ".answers: not empty, but is_impossible is true");
  EXPECT_EQ(
      Malformed(Squad(R"({"id": "2", "question": "q", "answers": [{"text": "a"}], "is_impossible": 1})"),
                QaFormat::kSquadV2),
      at + ".is_impossible: expected true or false, got a number");
}

TEST_F(MalformedRecordsTest, TheRestOfTheFileIsReadOrNot) {
  const std::string text = Squad(R"({"id": 2, "question": "q", "answers": [{"text": "a"}]},
      {"id": "3", "question": "q", "answers": [{"text": "a"}]})");
  const auto skipped = Read(text, QaFormat::kSquadV1).value();
  ASSERT_EQ(skipped.items.size(), 2u);
  EXPECT_EQ(skipped.items[1].id, "3");
  EXPECT_EQ(skipped.num_malformed, 1);

  const auto stopped = Read(text, QaFormat::kSquadV1, OnError::kStop);
  EXPECT_TRUE(absl::IsInvalidArgument(stopped.status()));
  EXPECT_THAT(stopped.status().message(),
              AllOf(HasSubstr(dir_.File("data")),
                    HasSubstr("record 1: data[0].paragraphs[0].qas[1].id: expected a string, got a number")));
}

TEST_F(MalformedRecordsTest, OneBadParagraphOrArticleDoesNotCostTheOthers) {
  const std::string good =
      R"({"paragraphs": [{"context": "c", "qas": [{"id": "1", "question": "q", "answers": [{"text": "a"}]}]}]})";
  const auto with = [&](const std::string& article) { return "{\"data\": [" + article + "," + good + "]}"; };
  EXPECT_EQ(Malformed(with("{\"paragraphs\": [{\"qas\": []}]}"), QaFormat::kSquadV1),
            "0 data[0].paragraphs[0].context: missing");
  EXPECT_EQ(Malformed(with("{\"paragraphs\": 3}"), QaFormat::kSquadV1),
            "0 data[0].paragraphs: expected a list, got a number");
  EXPECT_EQ(Malformed(with("null"), QaFormat::kSquadV1), "0 data[0]: expected an object, got null");
  EXPECT_THAT(Malformed(with("{\"paragraphs\": [1,]}"), QaFormat::kCmrc2018),
              HasSubstr("0 data[0]: not valid JSON"));
  EXPECT_THAT(Malformed(with("{\"paragraphs\": NaN}"), QaFormat::kSquadV1),
              HasSubstr("0 data[0]: not valid JSON"));
  EXPECT_THAT(Malformed(with("{\"title\": 1, \"title\": 1}"), QaFormat::kSquadV1), HasSubstr("stands twice"));
  EXPECT_THAT(Malformed(with("\"\xff\""), QaFormat::kSquadV1), HasSubstr("0 data[0]: not valid JSON"));
  EXPECT_THAT(Malformed(with("\"\\ud800\""), QaFormat::kSquadV1), HasSubstr("0 data[0]: not valid JSON"));
  EXPECT_EQ(Read(with("null"), QaFormat::kSquadV1).value().items.size(), 1u);
}

TEST_F(MalformedRecordsTest, CmrcFlat) {
  const auto malformed = [&](const std::string& record) {
    return Malformed(
        "[" + record +
            R"(,{"context_text": "c", "qas": [{"query_id": "1", "query_text": "q", "answers": ["a"]}]}])",
        QaFormat::kCmrc2018Flat);
  };
  EXPECT_EQ(malformed("{}"), "0 [0].context_text: missing");
  EXPECT_EQ(malformed(R"({"context_text": "c", "qas": {}})"), "0 [0].qas: expected a list, got an object");
  EXPECT_EQ(
      malformed(R"({"context_text": "c", "qas": [{"query_id": "1", "query_text": "q", "answers": [7]}]})"),
      "0 [0].qas[0].answers[0]: expected an object, got a number");
  EXPECT_EQ(
      malformed(R"({"context_text": "c", "qas": [{"query_id": "1", "query_text": "q", "answers": []}]})"),
      "0 [0].qas[0].answers: empty");
  EXPECT_EQ(malformed(R"({"context_text": "c", "qas": [{"id": "1", "query_text": "q", "answers": ["a"]}]})"),
            "0 [0].qas[0].query_id: missing");
}

TEST_F(MalformedRecordsTest, HotpotQa) {
  const std::string good = R"({"_id": "1", "question": "q", "answer": "a", "context": [["t", ["s"]]]})";
  const auto malformed = [&](const std::string& from, const std::string& to) {
    return Malformed("[" + good + "," + absl::StrReplaceAll(good, {{from, to}}) + "]", QaFormat::kHotpotQa);
  };
  EXPECT_EQ(malformed("\"_id\"", "\"id\""), "1 [1]._id: missing");
  EXPECT_EQ(malformed("\"answer\": \"a\"", "\"answer\": []"), "1 [1].answer: expected a string, got a list");
  EXPECT_EQ(malformed("[[\"t\", [\"s\"]]]", "{\"title\": [], \"sentences\": []}"),
            "1 [1].context: expected a list, got an object");
  EXPECT_EQ(malformed("[\"t\", [\"s\"]]", "[\"t\"]"),
            "1 [1].context[0]: expected [title, sentences], got a list of 1");
  EXPECT_EQ(malformed("[\"s\"]", "[\"s\", 4]"), "1 [1].context[0][1][1]: expected a string, got a number");
  EXPECT_EQ(malformed("\"_id\"", "\"supporting_facts\": [[\"t\", \"0\"]], \"_id\""),
            "1 [1].supporting_facts[0][1]: expected an integer, got a string");
  EXPECT_EQ(malformed("\"_id\"", "\"level\": 3, \"_id\""), "1 [1].level: expected a string, got a number");
  EXPECT_THAT(malformed("\"a\"", "NaN"), HasSubstr("1 [1]: not valid JSON"));
}

TEST_F(MalformedRecordsTest, JsonlNamesTheLine) {
  const auto malformed = [&](const std::string& line) {
    return Malformed("{\"question\": \"q\", \"answers\": [\"a\"]}\n\n" + line + "\n", QaFormat::kJsonl);
  };
  EXPECT_THAT(malformed("{\"question\": \"q\""), HasSubstr("1 line 3: not valid JSON"));
  EXPECT_EQ(malformed("[1]"), "1 line 3: expected an object, got a list");
  EXPECT_EQ(malformed(R"({"answers": ["a"]})"), "1 line 3: expected one of \"prompt\" and \"question\"");
  EXPECT_EQ(malformed(R"({"prompt": "p", "question": "q", "answers": ["a"]})"),
            "1 line 3: expected one of \"prompt\" and \"question\"");
  EXPECT_EQ(malformed(R"({"prompt": "p"})"), "1 line 3: expected one of \"references\" and \"answers\"");
  EXPECT_EQ(malformed(R"({"prompt": "p", "references": "a"})"),
            "1 line 3.references: expected a list, got a string");
  EXPECT_EQ(malformed(R"({"prompt": "p", "references": ["a", null]})"),
            "1 line 3.references[1]: expected a string, got null");
  EXPECT_EQ(malformed(R"({"prompt": "p", "references": []})"),
            "1 line 3.references: empty, and no_answer is not true");
  EXPECT_EQ(malformed(R"({"prompt": "p", "references": ["a"], "scorer": "bleu"})"),
            "1 line 3.scorer: expected one of squad_v1, squad_v2, hotpotqa, cmrc2018");
  EXPECT_EQ(malformed(R"({"prompt": 1e999, "references": ["a"]})").substr(0, 27),
            "1 line 3: not valid JSON ne");
}

TEST(CutOffTest, AFileThatIsCutOffLosesItsLastRecordOnly) {
  struct Sample {
    std::string name;
    absl::Status (*read)(absl::string_view text, QaCollector* collector);
  };
  for (const auto& [name, read] : std::vector<Sample>{{"squad_v1.json", ReadSquadV1},
                                                      {"squad_v2.json", ReadSquadV2},
                                                      {"cmrc2018.json", ReadCmrc2018},
                                                      {"cmrc2018_flat.json", ReadCmrc2018Flat},
                                                      {"hotpotqa.json", ReadHotpotQa}}) {
    const std::string text = testing::ReadFile(testing::TestDataPath("eval/" + name));
    std::size_t most = 0;
    for (std::size_t size = 0; size <= text.find_last_of("]}"); ++size) {
      // Not one cut passes for a whole file.
      QaCollector stops("file", {.on_error = OnError::kStop});
      EXPECT_FALSE(read(absl::string_view(text).substr(0, size), &stops).ok()) << name << " cut at " << size;
      QaCollector skips("file", {.on_error = OnError::kSkip});
      if (!read(absl::string_view(text).substr(0, size), &skips).ok()) continue;
      const Dataset<QaItem> dataset = skips.Take("");
      EXPECT_EQ(dataset.num_malformed, 1) << name << " cut at " << size;
      EXPECT_GE(dataset.items.size(), most) << name << " cut at " << size;
      most = dataset.items.size();
    }
    EXPECT_GE(most, 2u) << name;
  }
}

TEST_F(MalformedRecordsTest, NestingWithoutEndIsOneMalformedRecord) {
  const std::string deep(1 << 20, '[');
  EXPECT_THAT(Malformed("[" + deep, QaFormat::kHotpotQa), HasSubstr("the file ends inside this record"));
  EXPECT_THAT(Malformed("[" + deep + std::string(1 << 20, ']') + "]", QaFormat::kHotpotQa),
              HasSubstr("nested deeper"));
  EXPECT_THAT(Malformed(deep, QaFormat::kJsonl), HasSubstr("0 line 1: nested deeper"));
  EXPECT_THAT(Malformed("{\"data\": [" + deep, QaFormat::kSquadV1), HasSubstr("0 data[0]: the file ends"));
  EXPECT_FALSE(DetectQaFormat(deep).ok());
  EXPECT_FALSE(DetectQaFormat("{\"data\": " + deep).ok());
}

TEST_F(MalformedRecordsTest, WhatFollowsTheEndIsReported) {
  const std::string good = R"({"_id": "1", "question": "q", "answer": "a", "context": []})";
  EXPECT_EQ(Malformed("[" + good + "] x", QaFormat::kHotpotQa), "1 [0]: something follows the list's end");
  EXPECT_EQ(Malformed("[" + good + " " + good + "]", QaFormat::kHotpotQa),
            "1 [0]: expected a comma or the list's end after this record");
  EXPECT_THAT(Malformed("[" + good + ",]", QaFormat::kHotpotQa), HasSubstr("1 [1]: not valid JSON"));
  EXPECT_THAT(Malformed("[," + good + "]", QaFormat::kHotpotQa), HasSubstr("0 [0]: not valid JSON"));
}

TEST_F(MalformedRecordsTest, TheReportIsBounded) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "x\n";
  const auto dataset = Read(text, QaFormat::kJsonl).value();
  EXPECT_EQ(dataset.num_malformed, 5000);
  EXPECT_EQ(dataset.malformed.size(), kMaxReportedRecords);
  EXPECT_EQ(dataset.malformed.back().path, "line 100");
  EXPECT_THAT(dataset.items, IsEmpty());
}

TEST_F(MalformedRecordsTest, ReferencesThatAreNoAnswers) {
  const std::string record = R"({"question": "q", "answers": ["a"%s]})";
  EXPECT_EQ(Malformed(absl::StrReplaceAll(record,
                                          {{"%s", ", \"" + std::string(kMaxReferenceBytes + 1, 'x') + "\""}}),
                      QaFormat::kJsonl),
            "0 line 1.answers[1]: has 65537 bytes, more than 65536");
  std::string many;
  for (std::size_t i = 0; i < kMaxReferences; ++i) many += ", \"a\"";
  EXPECT_EQ(Malformed(absl::StrReplaceAll(record, {{"%s", many}}), QaFormat::kJsonl),
            "0 line 1.answers: has 1001 entries, more than 1000");
}

// Where a record ends is then anybody's guess, but nothing of it passes for a record.
TEST_F(MalformedRecordsTest, ABracketThatIsNotClosedTakesTheRestOfTheFile) {
  const std::string good = R"({"_id": "1", "question": "q", "answer": "a", "context": []})";
  const auto dataset = Read("[" + good + ", {\"a\": [}, " + good + "]", QaFormat::kHotpotQa).value();
  EXPECT_EQ(dataset.items.size(), 1u);
  ASSERT_EQ(dataset.malformed.size(), 2u);
  EXPECT_THAT(dataset.malformed[0].message, HasSubstr("not valid JSON"));
  EXPECT_EQ(dataset.malformed[1].message, "the file ends inside the list");
}

// A context is repeated for each of its questions: a small file may ask for any amount of memory.
TEST_F(MalformedRecordsTest, AFileThatUnfoldsWithoutBoundIsRefused) {
  std::string text =
      R"({"data": [{"paragraphs": [{"context": ")" + std::string(10000, 'c') + R"(", "qas": [)";
  for (int i = 0; i < 200; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", R"({"id": "1", "question": "q", "answers": ["a"]})");
  }
  testing::WriteFile(dir_.File("data"), text + "]}]}]}");
  const auto read = [&](std::size_t max_bytes) {
    return ReadQaDataset(dir_.File("data"), QaFormat::kSquadV1, {.max_bytes = max_bytes});
  };
  EXPECT_EQ(read(4'000'000).value().items.size(), 200u);
  const absl::Status status = read(1'000'000).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(status.message(), HasSubstr("more than 1000000 bytes; set a limit"));
  EXPECT_FALSE(read(0).ok());
}

}  // namespace
}  // namespace scd
