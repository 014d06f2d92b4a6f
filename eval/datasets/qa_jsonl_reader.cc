#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "eval/datasets/qa_readers.h"
#include "eval/datasets/record_fields.h"
#include "eval/datasets/record_text.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Copies a field that may be absent.
absl::Status ReadOptional(const RecordField& record, const char* key, std::string* value) {
  if (!record.Has(key)) return absl::OkStatus();
  SCD_ASSIGN_OR_RETURN(*value, record.String(key));
  return absl::OkStatus();
}

absl::Status ReadScorer(const RecordField& record, QaItem* item) {
  item->scorer = QaScorer::kSquadV2;
  if (!record.Has("scorer")) return absl::OkStatus();
  SCD_ASSIGN_OR_RETURN(const RecordField field, record.Field("scorer"));
  SCD_ASSIGN_OR_RETURN(const std::string name, field.String());
  const std::optional<QaScorer> scorer = ParseQaScorer(name);
  if (!scorer) return field.Error(absl::StrCat("expected one of ", absl::StrJoin(QaScorerNames(), ", ")));
  item->scorer = *scorer;
  return absl::OkStatus();
}

absl::Status ReadReferences(const RecordField& record, QaItem* item) {
  if (record.Has("references") == record.Has("answers"))
    return record.Error("expected one of \"references\" and \"answers\"");
  SCD_ASSIGN_OR_RETURN(const RecordField field,
                       record.Field(record.Has("references") ? "references" : "answers"));
  SCD_ASSIGN_OR_RETURN(item->references, field.Strings());
  SCD_RETURN_IF_ERROR(CheckReferences(item->references, field.path()));
  if (record.Has("no_answer")) {
    SCD_ASSIGN_OR_RETURN(const RecordField no_answer, record.Field("no_answer"));
    SCD_ASSIGN_OR_RETURN(item->no_answer, no_answer.Bool());
  }
  if (item->references.empty() && !item->no_answer) return field.Error("empty, and no_answer is not true");
  if (!item->references.empty() && item->no_answer) return field.Error("not empty, but no_answer is true");
  return absl::OkStatus();
}

absl::StatusOr<QaItem> ReadRecord(const RecordField& record) {
  SCD_RETURN_IF_ERROR(record.ExpectObject());
  QaItem item;
  item.id = record.path();
  SCD_RETURN_IF_ERROR(ReadOptional(record, "id", &item.id));
  SCD_RETURN_IF_ERROR(ReadOptional(record, "title", &item.title));
  SCD_RETURN_IF_ERROR(ReadOptional(record, "context", &item.context));
  SCD_RETURN_IF_ERROR(ReadScorer(record, &item));
  if (record.Has("prompt") == record.Has("question"))
    return record.Error("expected one of \"prompt\" and \"question\"");
  if (record.Has("prompt")) {
    SCD_ASSIGN_OR_RETURN(item.prompt, record.String("prompt"));
  } else {
    SCD_ASSIGN_OR_RETURN(item.question, record.String("question"));
  }
  SCD_RETURN_IF_ERROR(ReadReferences(record, &item));
  return item;
}

}  // namespace

absl::Status ReadQaJsonl(absl::string_view text, QaCollector* collector) {
  LineCutter lines(text);
  while (!collector->full()) {
    const std::optional<LineCutter::Line> line = lines.Next();
    if (!line) break;
    const absl::StatusOr<nlohmann::json> json = ParseRecord({line->text, true}, line->path);
    SCD_RETURN_IF_ERROR(json.ok()
                            ? AddOrReport(ReadRecord(RecordField(*json, line->path)), line->path, collector)
                            : collector->AddMalformed(json.status(), line->path));
  }
  return absl::OkStatus();
}

}  // namespace scd
