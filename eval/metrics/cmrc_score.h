// F1 and exact match of CMRC 2018. A text's segments are its Chinese characters (U+4E00 to U+9FA5), one each,
// and the words of what stands between them (see word_segments.h); lower case, without the script's list of
// punctuation. F1 is over the longest run of segments that prediction and reference have in common.
#ifndef SCD_EVAL_METRICS_CMRC_SCORE_H_
#define SCD_EVAL_METRICS_CMRC_SCORE_H_

#include <string>
#include <string_view>
#include <vector>

#include "eval/metrics/answer_score.h"

namespace scd {

std::vector<std::u32string> CmrcSegments(std::string_view text);

// Exact match compares the texts in lower case without that punctuation. Two empty texts match, but have F1
// 0.
AnswerScore CmrcScore(std::string_view prediction, const std::vector<std::string>& references);

}  // namespace scd

#endif  // SCD_EVAL_METRICS_CMRC_SCORE_H_
