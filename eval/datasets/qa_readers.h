// The readers of each published layout of questions, one source file each. Texts are whole files. Errors of a
// record go to the collector; a reader's own error says that the text is not this layout at all.
#ifndef SCD_EVAL_DATASETS_QA_READERS_H_
#define SCD_EVAL_DATASETS_QA_READERS_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval/datasets/items.h"
#include "eval/datasets/record_collector.h"

namespace scd {

using QaCollector = RecordCollector<QaItem>;

// {"data": [{"title", "paragraphs": [{"context", "qas": [{"id", "question", "answers": [{"text"}]}]}]}]},
// with "is_impossible" in each question of v2.0.
absl::Status ReadSquadV1(absl::string_view text, QaCollector* collector);
absl::Status ReadSquadV2(absl::string_view text, QaCollector* collector);
// The same without "is_impossible"; answers are objects with "text", or texts.
absl::Status ReadCmrc2018(absl::string_view text, QaCollector* collector);
// [{"context_id", "context_text", "title", "qas": [{"query_id", "query_text", "answers": ["..."]}]}]
absl::Status ReadCmrc2018Flat(absl::string_view text, QaCollector* collector);
// [{"_id", "question", "answer", "context": [["title", ["sentence", ...]], ...], "supporting_facts", ...}]
// A context's paragraphs are lines of the item's: "title: sentences".
absl::Status ReadHotpotQa(absl::string_view text, QaCollector* collector);
// A line each: {"prompt" | "context" and "question", "references" | "answers": ["..."]}, and if wanted "id",
// "title", "scorer", "no_answer".
absl::Status ReadQaJsonl(absl::string_view text, QaCollector* collector);

// What the readers have in common.

// Adds the item, or reports it as malformed.
absl::Status AddOrReport(absl::StatusOr<QaItem> item, absl::string_view path, QaCollector* collector);

// "answers" of SQuAD and CMRC.
absl::StatusOr<std::vector<std::string>> ReadAnswers(const RecordField& question);

// Calls read_question for every question of a document in SQuAD's layout; context and title are filled in
// here.
using QuestionReader = std::function<absl::StatusOr<QaItem>(const RecordField& question)>;
absl::Status ReadSquadLayout(absl::string_view text, const QuestionReader& read_question,
                             QaCollector* collector);

}  // namespace scd

#endif  // SCD_EVAL_DATASETS_QA_READERS_H_
