// Scores of one answer against its references, by the definition of the data set that the question comes
// from.
#ifndef SCD_EVAL_METRICS_ANSWER_SCORE_H_
#define SCD_EVAL_METRICS_ANSWER_SCORE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace scd {

// Whose published script defines F1 and exact match.
enum class QaScorer {
  kSquadV1,
  kSquadV2,  // as v1.1, but texts without words are equal to each other, and no reference is an empty one
  kHotpotQa,
  kCmrc2018,
};

// "squad_v1", "squad_v2", "hotpotqa", "cmrc2018".
std::string QaScorerName(QaScorer scorer);
std::optional<QaScorer> ParseQaScorer(std::string_view name);
std::vector<std::string> QaScorerNames();

struct AnswerScore {
  double f1 = 0;     // 0 to 1
  double exact = 0;  // 0 or 1
};

// Each of the two scores is the largest over the references; 0 without any (but see kSquadV2). Bytes that are
// not UTF-8 count as U+FFFD.
AnswerScore ScoreAnswer(QaScorer scorer, std::string_view prediction,
                        const std::vector<std::string>& references);

}  // namespace scd

#endif  // SCD_EVAL_METRICS_ANSWER_SCORE_H_
