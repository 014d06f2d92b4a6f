// What is measured on: windows of text with a continuation that is scored, and questions with references.
#ifndef SCD_EVAL_EVAL_DATA_H_
#define SCD_EVAL_EVAL_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "eval/metrics/answer_score.h"

namespace scd {

struct EvalWindow {
  std::vector<std::int32_t> prefix;        // handed over
  std::vector<std::int32_t> continuation;  // scored
};

struct EvalQuestion {
  std::string prompt;
  std::vector<std::string> references;
  QaScorer scorer = QaScorer::kSquadV1;
};

struct EvalData {
  std::vector<EvalWindow> windows;
  std::string window_source;
  std::vector<EvalQuestion> questions;
  std::string question_source;
};

}  // namespace scd

#endif  // SCD_EVAL_EVAL_DATA_H_
