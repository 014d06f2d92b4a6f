#include "absl/strings/str_cat.h"
#include "eval/datasets/qa_readers.h"
#include "eval/datasets/record_fields.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

absl::StatusOr<QaItem> ReadQuestion(const RecordField& question, bool v2) {
  QaItem item;
  item.scorer = v2 ? QaScorer::kSquadV2 : QaScorer::kSquadV1;
  SCD_ASSIGN_OR_RETURN(item.id, question.String("id"));
  SCD_ASSIGN_OR_RETURN(item.question, question.String("question"));
  SCD_ASSIGN_OR_RETURN(item.references, ReadAnswers(question));
  if (question.Has("is_impossible")) {
    SCD_ASSIGN_OR_RETURN(const RecordField field, question.Field("is_impossible"));
    SCD_ASSIGN_OR_RETURN(item.no_answer, field.Bool());
    if (item.no_answer && !v2) return field.Error("true, which SQuAD v1.1 does not know");
  }
  const std::string answers = absl::StrCat(question.path(), ".answers");
  if (item.references.empty() && !item.no_answer)
    return FieldError(answers, "empty, and is_impossible is not true");
  if (!item.references.empty() && item.no_answer)
    return FieldError(answers, "not empty, but is_impossible is true");
  return item;
}

}  // namespace

absl::Status ReadSquadV1(absl::string_view text, QaCollector* collector) {
  return ReadSquadLayout(
      text, [](const RecordField& question) { return ReadQuestion(question, false); }, collector);
}

absl::Status ReadSquadV2(absl::string_view text, QaCollector* collector) {
  return ReadSquadLayout(
      text, [](const RecordField& question) { return ReadQuestion(question, true); }, collector);
}

}  // namespace scd
