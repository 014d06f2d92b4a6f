#include "eval/metrics/hotpot_score.h"

#include <algorithm>

#include "eval/metrics/squad_score.h"

namespace scd {
namespace {

bool IsClosedAnswer(const std::vector<std::u32string>& words) {
  return words.size() == 1 && (words[0] == U"yes" || words[0] == U"no" || words[0] == U"noanswer");
}

}  // namespace

AnswerScore HotpotScore(std::string_view prediction, const std::vector<std::string>& references) {
  const std::vector<std::u32string> predicted = SquadWords(prediction);
  AnswerScore best;
  for (const std::string& reference : references) {
    const std::vector<std::u32string> expected = SquadWords(reference);
    const bool equal = predicted == expected;
    if (equal) best.exact = 1;
    if (!equal && (IsClosedAnswer(predicted) || IsClosedAnswer(expected))) continue;
    best.f1 =
        std::max(best.f1, WordF1(NumSharedWords(predicted, expected), predicted.size(), expected.size()));
  }
  return best;
}

}  // namespace scd
