#include "absl/strings/str_cat.h"
#include "eval/datasets/list_layout.h"
#include "eval/datasets/qa_readers.h"
#include "eval/datasets/record_fields.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

absl::StatusOr<QaItem> ReadQuestion(const RecordField& question, const char* id, const char* text) {
  QaItem item;
  item.scorer = QaScorer::kCmrc2018;
  SCD_ASSIGN_OR_RETURN(item.id, question.String(id));
  SCD_ASSIGN_OR_RETURN(item.question, question.String(text));
  SCD_ASSIGN_OR_RETURN(item.references, ReadAnswers(question));
  if (item.references.empty()) return FieldError(absl::StrCat(question.path(), ".answers"), "empty");
  return item;
}

struct Context {
  std::string title;
  std::string text;
  std::vector<RecordField> questions;
};

absl::StatusOr<Context> ReadContext(const RecordField& record) {
  Context context;
  SCD_ASSIGN_OR_RETURN(context.text, record.String("context_text"));
  SCD_ASSIGN_OR_RETURN(context.questions, record.List("qas"));
  if (record.Has("title")) {
    SCD_ASSIGN_OR_RETURN(context.title, record.String("title"));
  }
  return context;
}

}  // namespace

absl::Status ReadCmrc2018(absl::string_view text, QaCollector* collector) {
  return ReadSquadLayout(
      text, [](const RecordField& question) { return ReadQuestion(question, "id", "question"); }, collector);
}

absl::Status ReadCmrc2018Flat(absl::string_view text, QaCollector* collector) {
  const auto read_record = [collector](const RecordField& record) -> absl::Status {
    const absl::StatusOr<Context> context = ReadContext(record);
    if (!context.ok()) return collector->AddMalformed(context.status(), record.path());
    for (const RecordField& question : context->questions) {
      if (collector->full()) break;
      absl::StatusOr<QaItem> item = ReadQuestion(question, "query_id", "query_text");
      if (item.ok()) {
        item->title = context->title;
        item->context = context->text;
      }
      SCD_RETURN_IF_ERROR(AddOrReport(std::move(item), question.path(), collector));
    }
    return absl::OkStatus();
  };
  return ReadListLayout(text, read_record, collector);
}

}  // namespace scd
