// F1 and exact match of SQuAD v1.1 and v2.0.
#ifndef SCD_EVAL_METRICS_SQUAD_SCORE_H_
#define SCD_EVAL_METRICS_SQUAD_SCORE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "eval/metrics/answer_score.h"

namespace scd {

// The words that are compared: lower case, ASCII punctuation taken out, the words a, an and the taken out,
// split at white space. In this order, so "l'an" is one word and "an-other" is "another".
std::vector<std::u32string> SquadWords(std::string_view text);

// Words that two texts share, counted as often as both have them.
std::size_t NumSharedWords(const std::vector<std::u32string>& a, const std::vector<std::u32string>& b);

// Harmonic mean of shared / predicted and shared / expected; 0 where nothing is shared.
double WordF1(std::size_t num_shared, std::size_t num_predicted, std::size_t num_expected);

AnswerScore SquadV1Score(std::string_view prediction, const std::vector<std::string>& references);
// References without words do not count, unless all are: then the right answer is an empty one.
AnswerScore SquadV2Score(std::string_view prediction, const std::vector<std::string>& references);

}  // namespace scd

#endif  // SCD_EVAL_METRICS_SQUAD_SCORE_H_
