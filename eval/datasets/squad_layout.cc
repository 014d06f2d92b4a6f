#include "absl/strings/str_cat.h"
#include "eval/datasets/json_split.h"
#include "eval/datasets/qa_readers.h"
#include "eval/datasets/record_fields.h"
#include "eval/datasets/record_text.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

struct Paragraph {
  std::string context;
  std::vector<RecordField> questions;
};

absl::StatusOr<Paragraph> ReadParagraph(const RecordField& field) {
  Paragraph paragraph;
  SCD_ASSIGN_OR_RETURN(paragraph.context, field.String("context"));
  SCD_ASSIGN_OR_RETURN(paragraph.questions, field.List("qas"));
  return paragraph;
}

struct Article {
  std::string title;
  std::vector<RecordField> paragraphs;
};

absl::StatusOr<Article> ReadArticle(const RecordField& field) {
  Article article;
  SCD_ASSIGN_OR_RETURN(article.paragraphs, field.List("paragraphs"));
  if (field.Has("title")) {
    SCD_ASSIGN_OR_RETURN(article.title, field.String("title"));
  }
  return article;
}

absl::Status ReadArticleQuestions(const Article& article, const QuestionReader& read_question,
                                  QaCollector* collector) {
  for (const RecordField& field : article.paragraphs) {
    const absl::StatusOr<Paragraph> paragraph = ReadParagraph(field);
    if (!paragraph.ok()) {
      SCD_RETURN_IF_ERROR(collector->AddMalformed(paragraph.status(), field.path()));
      continue;
    }
    for (const RecordField& question : paragraph->questions) {
      if (collector->full()) return absl::OkStatus();
      absl::StatusOr<QaItem> item = read_question(question);
      if (item.ok()) {
        item->title = article.title;
        item->context = paragraph->context;
      }
      SCD_RETURN_IF_ERROR(AddOrReport(std::move(item), question.path(), collector));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadAnswers(const RecordField& question) {
  SCD_ASSIGN_OR_RETURN(const std::vector<RecordField> fields, question.List("answers"));
  std::vector<std::string> answers;
  for (const RecordField& field : fields) {
    if (field.is_string()) {
      SCD_ASSIGN_OR_RETURN(std::string text, field.String());
      answers.push_back(std::move(text));
      continue;
    }
    SCD_ASSIGN_OR_RETURN(std::string text, field.String("text"));
    if (field.Has("answer_start")) {
      SCD_ASSIGN_OR_RETURN(const RecordField start, field.Field("answer_start"));
      SCD_RETURN_IF_ERROR(start.ExpectInt());
    }
    answers.push_back(std::move(text));
  }
  SCD_RETURN_IF_ERROR(CheckReferences(answers, absl::StrCat(question.path(), ".answers")));
  return answers;
}

absl::Status AddOrReport(absl::StatusOr<QaItem> item, absl::string_view path, QaCollector* collector) {
  if (!item.ok()) return collector->AddMalformed(item.status(), path);
  std::size_t bytes = item->id.size() + item->title.size() + item->context.size() + item->question.size() +
                      item->prompt.value_or("").size();
  for (const std::string& reference : item->references) bytes += sizeof(reference) + reference.size();
  return collector->Add(*std::move(item), bytes);
}

absl::Status ReadSquadLayout(absl::string_view text, const QuestionReader& read_question,
                             QaCollector* collector) {
  SCD_ASSIGN_OR_RETURN(const JsonMembers document, CutJsonObject(text));
  const JsonPart* data = document.Find("data");
  if (data == nullptr) return absl::InvalidArgumentError("data: missing");
  absl::StatusOr<JsonListCutter> articles = JsonListCutter::Create(data->text);
  if (!articles.ok()) return absl::InvalidArgumentError("data: expected a list");
  std::string path;
  for (std::int64_t i = 0; !collector->full(); ++i) {
    const std::optional<JsonPart> part = articles->Next();
    if (!part) break;
    path = absl::StrCat("data[", i, "]");
    const absl::StatusOr<nlohmann::json> json = ParseRecord(*part, path);
    const absl::StatusOr<Article> article =
        json.ok() ? ReadArticle(RecordField(*json, path)) : absl::StatusOr<Article>(json.status());
    if (article.ok()) {
      SCD_RETURN_IF_ERROR(ReadArticleQuestions(*article, read_question, collector));
    } else {
      SCD_RETURN_IF_ERROR(collector->AddMalformed(article.status(), path));
      if (!part->complete) return absl::OkStatus();
    }
  }
  if (collector->full()) return absl::OkStatus();
  if (!articles->ending().ok())
    return collector->AddMalformed(articles->ending(), path.empty() ? "data" : path);
  if (!document.closed)
    return collector->AddMalformed(FieldError("data", "the file ends after this list"), "data");
  return absl::OkStatus();
}

}  // namespace scd
