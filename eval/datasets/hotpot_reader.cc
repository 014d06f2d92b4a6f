#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "eval/datasets/list_layout.h"
#include "eval/datasets/qa_readers.h"
#include "eval/datasets/record_fields.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// ["title", second] of a context's paragraph or a supporting fact.
absl::StatusOr<std::vector<RecordField>> ReadPair(const RecordField& field, absl::string_view second) {
  SCD_ASSIGN_OR_RETURN(std::vector<RecordField> pair, field.List());
  if (pair.size() != 2)
    return field.Error(absl::StrCat("expected [title, ", second, "], got a list of ", pair.size()));
  return pair;
}

absl::StatusOr<std::string> ReadContext(const RecordField& record) {
  SCD_ASSIGN_OR_RETURN(const std::vector<RecordField> paragraphs, record.List("context"));
  std::vector<std::string> lines;
  for (const RecordField& paragraph : paragraphs) {
    SCD_ASSIGN_OR_RETURN(const std::vector<RecordField> pair, ReadPair(paragraph, "sentences"));
    SCD_ASSIGN_OR_RETURN(const std::string title, pair[0].String());
    SCD_ASSIGN_OR_RETURN(const std::vector<std::string> sentences, pair[1].Strings());
    // Sentences carry the spaces between them.
    lines.push_back(absl::StrCat(title, ": ", absl::StrJoin(sentences, "")));
  }
  return absl::StrJoin(lines, "\n");
}

absl::Status CheckSupportingFacts(const RecordField& record) {
  SCD_ASSIGN_OR_RETURN(const std::vector<RecordField> facts, record.List("supporting_facts"));
  for (const RecordField& fact : facts) {
    SCD_ASSIGN_OR_RETURN(const std::vector<RecordField> pair, ReadPair(fact, "index of the sentence"));
    SCD_RETURN_IF_ERROR(pair[0].String().status());
    SCD_RETURN_IF_ERROR(pair[1].ExpectInt());
  }
  return absl::OkStatus();
}

absl::StatusOr<QaItem> ReadRecord(const RecordField& record) {
  QaItem item;
  item.scorer = QaScorer::kHotpotQa;
  SCD_ASSIGN_OR_RETURN(item.id, record.String("_id"));
  SCD_ASSIGN_OR_RETURN(item.question, record.String("question"));
  SCD_ASSIGN_OR_RETURN(std::string answer, record.String("answer"));
  item.references.push_back(std::move(answer));
  SCD_RETURN_IF_ERROR(CheckReferences(item.references, absl::StrCat(record.path(), ".answer")));
  SCD_ASSIGN_OR_RETURN(item.context, ReadContext(record));
  if (record.Has("supporting_facts")) SCD_RETURN_IF_ERROR(CheckSupportingFacts(record));
  for (const char* key : {"type", "level"}) {
    if (record.Has(key)) SCD_RETURN_IF_ERROR(record.String(key).status());
  }
  return item;
}

}  // namespace

absl::Status ReadHotpotQa(absl::string_view text, QaCollector* collector) {
  return ReadListLayout(
      text,
      [collector](const RecordField& record) {
        return AddOrReport(ReadRecord(record), record.path(), collector);
      },
      collector);
}

}  // namespace scd
