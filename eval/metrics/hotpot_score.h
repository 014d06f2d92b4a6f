// F1 and exact match of HotpotQA's answers: SQuAD's words, but "yes", "no" and "noanswer" are right only as
// the whole answer.
#ifndef SCD_EVAL_METRICS_HOTPOT_SCORE_H_
#define SCD_EVAL_METRICS_HOTPOT_SCORE_H_

#include <string>
#include <string_view>
#include <vector>

#include "eval/metrics/answer_score.h"

namespace scd {

// The published script knows one reference a question; with several the best counts, as in SQuAD.
AnswerScore HotpotScore(std::string_view prediction, const std::vector<std::string>& references);

}  // namespace scd

#endif  // SCD_EVAL_METRICS_HOTPOT_SCORE_H_
