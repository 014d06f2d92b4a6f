// What the readers of data sets give: texts to score and questions to answer.
#ifndef SCD_EVAL_DATASETS_ITEMS_H_
#define SCD_EVAL_DATASETS_ITEMS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "eval/metrics/answer_score.h"

namespace scd {

// Token ids, or text that the model's tokenizer turns into them.
using IdsOrText = std::variant<std::vector<std::int32_t>, std::string>;

// A prefix that is handed over and the continuation that is scored after it.
struct LmItem {
  std::string id;
  IdsOrText prefix;
  IdsOrText continuation;
};

// A question with its references. Every text is UTF-8.
struct QaItem {
  std::string id;
  std::string title;  // empty where the data set has none
  std::string context;
  std::string question;
  std::optional<std::string>
      prompt;  // the whole prompt, where the record gives it; then context may be empty
  std::vector<std::string> references;  // empty only with no_answer
  bool no_answer = false;  // the context does not hold the answer: the right one is an empty text
  QaScorer scorer = QaScorer::kSquadV1;
};

enum class OnError {
  kStop,  // the first malformed record is the reader's error
  kSkip,  // it is left out and reported
};

struct ReadOptions {
  OnError on_error = OnError::kStop;
  std::int64_t limit = 0;  // items; 0: all
  // What the items may hold together: a file may repeat a long context for every question of it.
  std::size_t max_bytes = std::size_t{1} << 30;
};

struct MalformedRecord {
  std::int64_t index;   // of the record in its file, from 0, malformed ones counted
  std::string path;     // "data[0].paragraphs[2].qas[1].question", "line 7: answers[0]"
  std::string message;  // what is wrong, without the path
};

template <typename Item>
struct Dataset {
  std::string source;  // the file
  std::string format;  // the layout's name
  std::vector<Item> items;
  std::int64_t num_malformed = 0;
  std::vector<MalformedRecord> malformed;  // the first of them, at most kMaxReportedRecords
};

inline constexpr std::size_t kMaxReportedRecords = 100;

}  // namespace scd

#endif  // SCD_EVAL_DATASETS_ITEMS_H_
